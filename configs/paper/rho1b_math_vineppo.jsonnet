// VinePPO, K = 9: RhoMath-1.1B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.vineppo + paper.setting('rho1b', 'math') + { name: 'rho1b_math_vineppo' }
