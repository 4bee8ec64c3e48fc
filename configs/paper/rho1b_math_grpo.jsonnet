// GRPO: RhoMath-1.1B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.grpo + paper.setting('rho1b', 'math') + { name: 'rho1b_math_grpo' }
