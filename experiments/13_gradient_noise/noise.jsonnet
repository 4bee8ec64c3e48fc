// Training by the posterior's martingale, with PPO's critic and exact values learned and measured
// beside it: every estimator's values and gradients can be had at its checkpoints, of the same rollouts.
local efficient = import '../../configs/credit_short_vine_efficient.jsonnet';
local oracle = import '../../configs/credit_short_oracle.jsonnet';
local ppo = import '../../configs/credit_short_ppo.jsonnet';

efficient + {
  name: 'credit_short_noise',
  critic: ppo.critic,
  values+: { predictors+: oracle.values.predictors },
  evaluation+: { every: 0 },
  checkpoint: { every: 15, keep: 4 },
  logging+: { wandb_project: null },
}
