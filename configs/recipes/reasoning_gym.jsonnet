// VinePPO on a family of the library reasoning-gym (`pip install reasoning-gym`).
local base = import '../gsm8k_qwen2.5_0.5b_vineppo.jsonnet';
local task = import '../lib/task.libsonnet';

base + { name: 'reasoning_gym', task: task.reasoning_gym('leg_counting') }
