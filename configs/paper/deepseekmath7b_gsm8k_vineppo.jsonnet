// VinePPO, K = 9: DeepSeekMath-7B on GSM8K.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.vineppo + paper.setting('deepseekmath7b', 'gsm8k') + { name: 'deepseekmath7b_gsm8k_vineppo' }
