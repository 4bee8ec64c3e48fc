// One continuation of a third of the states: a probe on the policy's uncertainty learns from them, and
// they correct its values.
local vineppo = import 'credit_short_vineppo.jsonnet';

vineppo + {
  name: 'credit_short_vineppo_probe',
  credit: {
    kind: 'doubly_robust',
    num_continuations: 1,
    probability: 0.333,
    segmenter: vineppo.credit.segmenter,
  },
  values: {
    credit: 'probe',
    predictors: {
      probe: {
        kind: 'probe',
        of: 'monte_carlo',
        features: 'uncertainty',
        size: 64,
        learning_rate: 1e-3,
        weight_decay: 0.01,
        num_steps: 100,
        batch_size: 64,
        replay_iterations: 20,
        num_folds: 4,
        crossed: false,
      },
    },
  },
}
