// Fine-tuning of RhoMath-1.1B on the demonstrations of GSM8K, from which the others start.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('rho1b', 'gsm8k') + { name: 'rho1b_gsm8k_sft' }
