// The tuned critic of 19_real_model, and rollouts for other values: 506 an iteration of the same policy, which stands still,
// on problems that it neither always nor never solves, and that noise.jsonnet does not have.
local values = import '../19_real_model/gsm8k_values.jsonnet';
local noise = import 'noise.jsonnet';
local models = 'runs/19_real_model_models/';

values {
  name: 'gsm8k_claims',
  num_iterations: 4,
  task+: { train_path: models + 'gsm8k_claims.jsonl' },
  engine: noise.engine,
  critic+: {
    path: models + 'sft_gsm8k_half',
    learning_rate: 1e-5,
    head_learning_rate: 1e-4,
    batch_size: 22,
    micro_batch_size: 22,
    warmup_iterations: 4,
  },
  values: { credit: null },
}
