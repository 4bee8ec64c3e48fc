// VinePPO, K = 9: Qwen2.5-7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local modern = import '../lib/modern.libsonnet';

algorithm.vineppo + modern.qwen('Qwen2.5-7B') + { name: 'qwen2.5_7b_math_vineppo' }
