// VinePPO, K = 9: Qwen2.5-7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.vineppo + setting.qwen('Qwen2.5-7B') + { name: 'qwen2.5_7b_math_vineppo' }
