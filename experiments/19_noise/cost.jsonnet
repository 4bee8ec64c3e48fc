// What an iteration of 12 problems costs where the policy learns too: the seconds of a sampled token and of learning.
(import '../../configs/lib/algorithm.libsonnet').vineppo + (import '../../configs/lib/logging.libsonnet') {
  local noise = import 'noise.jsonnet',
  name: 'gsm8k_cost',
  seed: 1,
  num_iterations: 2,
  model: noise.model { lora:: null },
  task: noise.task,
  engine: noise.engine,
  sampling+: noise.sampling,
  rollouts: { num_prompts: 12, num_samples: 4 },
  credit+: { num_continuations: 1 },
  reference+: { kl_coef: 0 },
  optimization+: noise.optimization,
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 0, keep: 1 },
  logging+: { wandb_project: null },
}
