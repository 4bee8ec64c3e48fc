// Fine-tuning of DeepSeekMath-7B on the demonstrations of MATH, from which the others start.
local algorithm = import '../lib/algorithm.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.sft + paper.finetuning('deepseekmath7b', 'math') + { name: 'deepseekmath7b_math_sft' }
