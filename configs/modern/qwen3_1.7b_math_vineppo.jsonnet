// VinePPO, K = 9: Qwen3-1.7B on MATH; with --set model.path=Qwen/Qwen2.5-Math-1.5B that model.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.vineppo + setting.qwen('Qwen3-1.7B') + { name: 'qwen3_1.7b_math_vineppo' }
