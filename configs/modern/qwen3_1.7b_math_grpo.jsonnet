// GRPO: Qwen3-1.7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local modern = import '../lib/modern.libsonnet';

algorithm.grpo + modern.qwen('Qwen3-1.7B') + { name: 'qwen3_1.7b_math_grpo' }
