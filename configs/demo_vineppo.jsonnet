// The demo: VinePPO on short arithmetic chains, a few minutes on two cores.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local logging = import 'lib/logging.libsonnet';
local model = import 'lib/model.libsonnet';
local task = import 'lib/task.libsonnet';

algorithm.vineppo + hardware.cpu + logging + {
  name: 'demo_vineppo',
  seed: 1,
  num_iterations: 20,
  model: model.arithmetic_short,
  task: task.arithmetic_short,
  engine+: { max_model_len: 128 },
  sampling: { temperature: 1, top_p: 1, max_tokens: 64 },
  rollouts: { num_prompts: 32, num_samples: 8 },
  credit+: { num_continuations: 5 },
  reference+: { kl_coef: 1e-3 },
  optimization+: { learning_rate: 3e-5 },
  evaluation: { every: 2, num_samples: 4, temperature: 1, top_p: 1 },
  checkpoint: { every: 5, keep: 1 },
}
