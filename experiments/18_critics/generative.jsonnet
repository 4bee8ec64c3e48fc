// Values that the policy writes, as many rewards and iterations as values.jsonnet has; nothing else moves the policy.
(import '../../configs/recipes/generated.jsonnet') + {
  name: 'critics_generative',
  num_iterations: 6,
  rollouts: { num_prompts: 64, num_samples: 8 },
  optimization+: { learning_rate: 1e-12 },
  evaluation+: { every: 0 },
  checkpoint: { every: 2, keep: 3 },
  logging+: { wandb_project: null },
}
