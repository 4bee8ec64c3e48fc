// Makes the policy that ships as embedded:arithmetic_short.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local logging = import 'lib/logging.libsonnet';
local model = import 'lib/model.libsonnet';
local task = import 'lib/task.libsonnet';

algorithm.sft + hardware.cpu + hardware.without_logprobs_pass + logging + {
  name: 'sft_arithmetic',
  seed: 0,
  model: model.arithmetic_scratch,
  task: task.arithmetic_short,
  engine+: { max_model_len: 128 },
  sampling: { temperature: 1, top_p: 1, max_tokens: 64 },
  optimization+: {
    learning_rate: 3e-3,
    schedule: 'linear',
    num_epochs: 1,
    batch_size: 128,
    micro_batch_size: 128,
    max_tokens: 128,
  },
  evaluation: { every: 100, num_samples: 4, temperature: 1, top_p: 1 },
  checkpoint: { every: 100, keep: 2 },
}
