// VinePPO on Countdown: problems that are generated, and a checker that computes the answer.
local base = import '../gsm8k_qwen2.5_0.5b_vineppo.jsonnet';
local task = import '../lib/task.libsonnet';

base + { name: 'countdown', task: task.countdown }
