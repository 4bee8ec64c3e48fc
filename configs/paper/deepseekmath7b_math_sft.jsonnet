// Fine-tuning of DeepSeekMath-7B on the demonstrations of MATH. The other configs start from a
// model of the authors; --set model.path=runs/deepseekmath7b_math_sft/final/policy starts from this one.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('deepseekmath7b', 'math') + { name: 'deepseekmath7b_math_sft' }
