// The demo's PPO, with the posterior's values learned and measured beside its critic.
local efficient = import '../../configs/recipes/martingale.jsonnet';
local demo = import '../../configs/demo_ppo.jsonnet';

demo + {
  name: 'demo_noise',
  num_iterations: 10,
  values+: { predictors: { posterior: efficient.values.predictors.posterior } },
  evaluation+: { every: 0 },
  checkpoint: { every: 10, keep: 1 },
  logging+: { wandb_project: null },
}
