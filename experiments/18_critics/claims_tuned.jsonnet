// Every rate and β of claims.jsonnet at once, on a seed that nothing else uses.
local claims = import 'claims.jsonnet';

claims + {
  name: 'claims_tuned',
  seed: 101,
  num_iterations: 3,
  critic+: { warmup_iterations: 3 },
  checkpoint+: { every: 0 },
  values: { credit: null, predictors: claims.tuned },
}
