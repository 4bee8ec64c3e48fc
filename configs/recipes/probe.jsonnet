// One continuation of a third of the states: a probe on the policy's uncertainty learns from them, and
// they correct its values.
local vineppo = import '../credit_short_vineppo.jsonnet';

vineppo + {
  name: 'probe',
  credit: {
    kind: 'doubly_robust',
    num_continuations: 1,
    probability: 0.333,
    segmenter: vineppo.credit.segmenter,
  },
  values: { credit: 'probe', predictors: { probe: { kind: 'probe', of: 'monte_carlo' } } },
}
