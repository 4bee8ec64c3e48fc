// VinePPO with exact values in place of sampled ones: what credit could gain at best.
local vineppo = import '../credit_short_vineppo.jsonnet';

vineppo + {
  name: 'oracle',
  credit+: { num_continuations: 0 },
  values: { credit: 'oracle', predictors: { oracle: { kind: 'oracle', half_life: 5 } } },
}
