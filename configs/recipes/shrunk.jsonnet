// VinePPO whose values are drawn towards the mean reward of the problem's other rollouts.
(import '../credit_short_vineppo.jsonnet') + {
  name: 'shrunk',
  values: { credit: 'shrunk', predictors: { shrunk: { kind: 'shrunk', of: 'monte_carlo', toward: 'siblings' } } },
}
