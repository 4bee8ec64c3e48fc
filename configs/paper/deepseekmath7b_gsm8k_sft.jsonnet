// Fine-tuning of DeepSeekMath-7B on the demonstrations of GSM8K. The other configs start from a
// model of the authors; --set model.path=runs/deepseekmath7b_gsm8k_sft/final/policy starts from this one.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('deepseekmath7b', 'gsm8k') + { name: 'deepseekmath7b_gsm8k_sft' }
