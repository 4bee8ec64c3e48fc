// Not run yet: VinePPO from sft.jsonnet's policy on a GPU with eight cores: iterations of 64 x 8 rollouts, K = 9.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local sft = import 'sft.jsonnet';

algorithm.vineppo + hardware.gpu + hardware.many_cores + logging + {
  name: 'real_gpu',
  seed: 1,
  num_iterations: 60,
  model: model.pretrained('runs/19_real_model_models/sft_svamp/final/policy') { gradient_checkpointing: false },
  task: sft.task,
  engine+: { max_model_len: 256 },
  sampling+: { temperature: 0.6, max_tokens: 48 },
  rollouts: { num_prompts: 64, num_samples: 8 },
  reference+: { kl_coef: 0 },
  optimization+: { learning_rate: 1e-5, micro_batch_size: 64, logprobs_micro_batch_size: 128 },
  evaluation+: { every: 4, num_samples: 2 },
  checkpoint+: { every: 20 },
  logging+: { wandb_project: null },
}
