// VinePPO with a lagging count of skills in place of sampled values.
local vineppo = import '../credit_short_vineppo.jsonnet';

vineppo + {
  name: 'oracle',
  credit+: { num_continuations: 0 },
  values: { credit: 'oracle', predictors: { oracle: { kind: 'oracle', half_life: 5 } } },
}
