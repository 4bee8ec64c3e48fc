// GRPO: Qwen2.5-Math-1.5B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local modern = import '../lib/modern.libsonnet';

algorithm.grpo + modern.qwen('Qwen2.5-Math-1.5B') + { name: 'qwen2.5_math_1.5b_math_grpo' }
