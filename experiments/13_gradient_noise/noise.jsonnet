// Training by the posterior's martingale, with PPO's critic, the count of skills, a probe of the policy's uncertainty and what is
// made of continuations learned and measured beside it: every estimator's values and gradients can be had at its
// checkpoints, of the same rollouts.
local efficient = import '../../configs/recipes/martingale.jsonnet';
local oracle = import '../../configs/recipes/oracle.jsonnet';
local ppo = import '../../configs/credit_short_ppo.jsonnet';
local made_of_continuations = import 'made_of_continuations.libsonnet';
local recipes = import '../../configs/lib/recipes.libsonnet';

efficient + {
  name: 'credit_short_noise',
  critic: ppo.critic,
  values+: { predictors+: oracle.values.predictors + made_of_continuations + recipes.shrinkage.values.predictors },
  evaluation+: { every: 0 },
  checkpoint: { every: 15, keep: 4 },
  logging+: { wandb_project: null },
}
