// Fine-tuning of RhoMath-1.1B on the demonstrations of MATH. The other configs start from a
// model of the authors; --set model.path=runs/rho1b_math_sft/final/policy starts from this one.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('rho1b', 'math') + { name: 'rho1b_math_sft' }
