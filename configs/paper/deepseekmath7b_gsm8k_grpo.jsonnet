// GRPO: DeepSeekMath-7B on GSM8K.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.grpo + paper.setting('deepseekmath7b', 'gsm8k') + { name: 'deepseekmath7b_gsm8k_grpo' }
