// The tuned critic of 19_real_model, and rollouts for other values: 504 an iteration of the same policy, which stands still,
// on problems that it neither always nor never solves, and that noise.jsonnet does not have.
// Written before the runs:
// - The return less the tuned critic's values leaves 0.8 to 0.95 of RLOO's noise, as a constant would: the mean of three others
//   is noisy itself.
// - Log-ratios that learn from the rewards correlate less than 0.3 with differences of lines, and more than the critic, which
//   correlates less than 0.15. Whether the end or every prefix learns makes no difference that we can show.
// Written after two iterations, before every kind learned from four of them, at the better of two rates each:
// - Log-ratios correlate 0.15 to 0.35 with differences of lines, less than one continuation, and more than the critic.
// - The critic correlates less than 0.15, and histograms are within 0.1 of it.
// - No learned value's squared error is a tenth below that of a constant.
local values = import '../19_real_model/gsm8k_values.jsonnet';
local noise = import 'noise.jsonnet';
local models = 'runs/19_real_model_models/';

values {
  name: 'gsm8k_claims',
  num_iterations: 5,
  rollouts: { num_prompts: 36, num_samples: 14 },
  task+: { train_path: models + 'gsm8k_claims.jsonl' },
  engine: noise.engine,
  critic+: {
    path: models + 'sft_gsm8k_half',
    learning_rate: 1e-5,
    head_learning_rate: 1e-4,
    batch_size: 28,
    micro_batch_size: 28,
    warmup_iterations: 5,
  },
  values: { credit: null },
}
