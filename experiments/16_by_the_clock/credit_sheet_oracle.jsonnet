// VinePPO with a lagging count of skills in place of sampled values.
local vineppo = import 'credit_sheet_vineppo.jsonnet';

vineppo + {
  name: 'credit_sheet_oracle',
  credit+: { num_continuations: 0 },
  values: { credit: 'oracle', predictors: { oracle: { kind: 'oracle', half_life: 5 } } },
}
