// PPO whose critic is a head on the policy's backbone.
local ppo = import '../../configs/credit_short_ppo.jsonnet';

ppo + {
  name: 'credit_short_ppo_shared',
  critic: {
    kind: 'shared',
    coef: 0.5,
    head_learning_rate: 1e-3,
    warmup_iterations: 0,
    head_init: 'zero',
    loss: { kind: 'squared_error', clip: null },
  },
}
