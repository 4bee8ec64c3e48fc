// VinePPO whose values also count the rewards of the other rollouts that pass a state.
(import '../credit_short_vineppo.jsonnet') + {
  name: 'pooled',
  values: { credit: 'pooled', predictors: { pooled: { kind: 'pooled', of: 'monte_carlo' } } },
}
