// Training by privileged values, with the posterior's, PPO's critic, exact values and what is made of continuations
// learned and measured beside them: all estimators' gradients can be had at its checkpoints, of the same rollouts.
local privileged = import '../16_by_the_clock/credit_sheet_vine_privileged.jsonnet';
local efficient = import '../16_by_the_clock/credit_sheet_martingale.jsonnet';
local oracle = import '../16_by_the_clock/credit_sheet_oracle.jsonnet';
local made_of_continuations = import '../13_gradient_noise/made_of_continuations.libsonnet';
local recipes = import '../../configs/lib/recipes.libsonnet';
local ppo = import '../16_by_the_clock/credit_sheet_ppo.jsonnet';

privileged + {
  name: 'credit_sheet_noise',
  num_iterations: 30,
  critic: ppo.critic,
  values+: { predictors+: efficient.values.predictors + oracle.values.predictors + made_of_continuations
                         + recipes.shrinkage.values.predictors },
  evaluation+: { every: 0 },
  checkpoint: { every: 15, keep: 4 },
  logging+: { wandb_project: null },
}
