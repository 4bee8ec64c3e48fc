// Training by the martingale that sees the answer on `credit_sheet`, with the same beside it as in short.jsonnet.
local efficient = import '../16_by_the_clock/credit_sheet_martingale.jsonnet';
local oracle = import '../16_by_the_clock/credit_sheet_oracle.jsonnet';
local ppo = import '../16_by_the_clock/credit_sheet_ppo.jsonnet';
local privileged = import '../16_by_the_clock/credit_sheet_vine_privileged.jsonnet';
local beside = import 'beside.libsonnet';

privileged + {
  name: 'credit_sheet_noise',
  critic: ppo.critic,
  values+: { predictors+: efficient.values.predictors + oracle.values.predictors + beside.predictors },
} + beside.run
