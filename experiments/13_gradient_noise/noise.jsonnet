// Training by the posterior's martingale, with exact values measured beside it: every estimator's
// gradient can be had at its checkpoints, of the same rollouts.
local efficient = import '../../configs/credit_short_vine_efficient.jsonnet';
local oracle = import '../../configs/credit_short_oracle.jsonnet';

efficient + {
  name: 'credit_short_noise',
  values+: { predictors+: oracle.values.predictors },
  evaluation+: { every: 0 },
  checkpoint: { every: 15, keep: 4 },
  logging+: { wandb_project: null },
}
