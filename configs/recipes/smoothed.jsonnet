// PPO by steps whose values smooth one continuation a state along the rollout, without a critic.
(import '../credit_short_ppo.jsonnet') + {
  name: 'smoothed',
  credit+: { level: 'step' },
  critic: null,
  values: {
    credit: 'smoothed',
    predictors: {
      one: { kind: 'monte_carlo', num_continuations: 1, identical_prefixes: 'share', states: null },
      smoothed: { kind: 'smoothed', of: 'one', change: 0.2, direction: 'causal' },
    },
  },
}
