// GRPO: Qwen2.5-0.5B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local modern = import '../lib/modern.libsonnet';

algorithm.grpo + modern.qwen('0.5B') + { name: 'qwen2.5_0.5b_math_grpo' }
