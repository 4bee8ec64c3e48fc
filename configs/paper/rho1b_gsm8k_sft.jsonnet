// Fine-tuning of RhoMath-1.1B on the demonstrations of GSM8K. The other configs start from a
// model of the authors; --set model.path=runs/rho1b_gsm8k_sft/final/policy starts from this one.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('rho1b', 'gsm8k') + { name: 'rho1b_gsm8k_sft' }
