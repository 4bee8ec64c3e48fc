// Values of math_sft.jsonnet's policy, which stands still, on problems of MATH that it neither always nor never solves,
// steps as VinePPO cuts MATH's.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local gsm8k = import '../19_real_model/gsm8k_values.jsonnet';
local sft = import 'math_sft.jsonnet';
local models = 'runs/19_real_model_models/';

gsm8k {
  local config = self,
  name: 'math_values',
  num_iterations: 1,
  model+: { path: models + 'sft_math/final/policy' },
  task: sft.task { train_path: models + 'math_undecided.jsonl', num_test_problems: 2 },
  engine+: { max_model_len: 512 },
  sampling+: { max_tokens: 192 },
  rollouts: { num_prompts: 40, num_samples: 8 },
  credit+: { segmenter: { kind: 'math', max_formula_chars: 100 } },
  optimization+: { batch_size: 64, micro_batch_size: 16, logprobs_micro_batch_size: 32 },
  critic+: { batch_size: 64, micro_batch_size: 16, warmup_iterations: 1 },
  values+: { predictors+: { asked: config.critic + algorithm.yes_no { warmup_iterations: 0 } } },
}
