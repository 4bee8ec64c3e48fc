// Fine-tuning of DeepSeekMath-7B on the demonstrations of GSM8K, from which the others start.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('deepseekmath7b', 'gsm8k') + { name: 'deepseekmath7b_gsm8k_sft' }
