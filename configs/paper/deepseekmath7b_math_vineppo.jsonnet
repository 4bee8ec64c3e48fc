// VinePPO, K = 9: DeepSeekMath-7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.vineppo + paper.setting('deepseekmath7b', 'math') + { name: 'deepseekmath7b_math_vineppo' }
