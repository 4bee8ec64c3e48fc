// credit_short_ppo whose critic is a head on the policy's backbone.
(import '../credit_short_ppo.jsonnet') + {
  name: 'shared',
  critic: { kind: 'shared', coef: 0.5, head_learning_rate: 1e-3, head_init: 'zero' },
}
