// Training by the posterior's martingale on `credit_short`. PPO's critic, exact values, a count of skills, a probe and what is
// made of continuations learn beside it: all estimators' gradients can be had at its checkpoints, of the same rollouts.
local efficient = import '../../configs/recipes/martingale.jsonnet';
local oracle = import '../../configs/recipes/oracle.jsonnet';
local ppo = import '../../configs/credit_short_ppo.jsonnet';
local beside = import 'beside.libsonnet';

efficient + {
  name: 'credit_short_noise',
  critic: ppo.critic,
  values+: { predictors+: oracle.values.predictors + beside.predictors },
} + beside.run
