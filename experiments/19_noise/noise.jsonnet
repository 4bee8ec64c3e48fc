// The policy and the steps of 19_real_model/gsm8k_values.jsonnet, on the 48 problems of run.sh. Gradients are of its start;
// its one iteration tells the seconds of a sampled token and of learning.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local values = import '../19_real_model/gsm8k_values.jsonnet';

algorithm.vineppo + hardware.gpu + hardware.on_cpu + logging + {
  name: 'gsm8k_noise',
  seed: 1,
  num_iterations: 1,
  model: values.model,
  task: values.task { train_path: 'runs/19_real_model_models/gsm8k_noise.jsonl' },
  engine+: { max_model_len: 384, max_num_seqs: 256 },
  sampling+: { max_tokens: 128 },
  rollouts: { num_prompts: 16, num_samples: 4 },
  credit+: { num_continuations: 1 },
  values: {
    credit: null,
    predictors: { tuned: { kind: 'reward_model', path: 'runs/19_claims/checkpoints/iter_000002/critic', output: 'probability' } },
  },
  reference+: { kl_coef: 0 },
  optimization+: { num_epochs: 1, batch_size: 64, micro_batch_size: 16, logprobs_micro_batch_size: 32 },
  evaluation+: { every: 0, num_samples: 1 },
  logging+: { wandb_project: null },
}
