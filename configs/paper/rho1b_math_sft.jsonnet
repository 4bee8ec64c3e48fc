// Fine-tuning of RhoMath-1.1B on the demonstrations of MATH, from which the others start.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('rho1b', 'math') + { name: 'rho1b_math_sft' }
