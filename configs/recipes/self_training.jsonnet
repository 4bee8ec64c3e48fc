// RestEM on the task that can show step credit: as many sampled tokens as 60 iterations of GRPO.
local algorithm = import '../lib/algorithm.libsonnet';
local hardware = import '../lib/hardware.libsonnet';
local logging = import '../lib/logging.libsonnet';
local model = import '../lib/model.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.restem + hardware.cpu + hardware.without_logprobs_pass + logging + {
  name: 'self_training',
  seed: 1,
  model: model.credit_short { architecture: null },
  task: setting.credit_short.task,
  engine+: { max_model_len: 128 },
  sampling: setting.credit_short.sampling,
  self_training+: { num_prompts: 40, num_samples: 8, most_right: 4, num_validation: 64 },
  optimization+: {
    learning_rate: 1e-4,
    num_epochs: 4,
    batch_size: 16,
    micro_batch_size: 16,
    max_tokens: 128,
  },
  evaluation: { every: 1, num_samples: 4, temperature: 1, top_p: 1 },
  checkpoint: { every: 1, keep: 2 },
}
