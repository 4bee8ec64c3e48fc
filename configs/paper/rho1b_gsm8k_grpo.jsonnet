// GRPO: RhoMath-1.1B on GSM8K.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.grpo + paper.setting('rho1b', 'gsm8k') + { name: 'rho1b_gsm8k_grpo' }
