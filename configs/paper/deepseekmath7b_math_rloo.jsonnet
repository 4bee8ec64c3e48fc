// RLOO: DeepSeekMath-7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.rloo + paper.setting('deepseekmath7b', 'math') + { name: 'deepseekmath7b_math_rloo' }
