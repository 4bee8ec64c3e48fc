// GRPO: DeepSeekMath-7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.grpo + paper.setting('deepseekmath7b', 'math') + { name: 'deepseekmath7b_math_grpo' }
