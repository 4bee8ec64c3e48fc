// credit_short_ppo whose values are log-ratios of an adapted model to the starting policy, as experiments/18_critics tuned them.
(import '../credit_short_ppo.jsonnet') + {
  name: 'log_ratio',
  critic+: {
    kind: 'log_ratio',
    loss: { kind: 'cross_entropy', low: 0, high: 1 },
    learning_rate: 1e-4,
    beta: 5,
    fit: 'end',
  },
}
