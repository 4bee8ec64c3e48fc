// credit_short_ppo whose critic predicts a histogram of the reward.
(import '../credit_short_ppo.jsonnet') + {
  name: 'hl_gauss',
  critic+: { kind: 'hl_gauss', loss: { kind: 'cross_entropy', low: 0, high: 1 } },
}
