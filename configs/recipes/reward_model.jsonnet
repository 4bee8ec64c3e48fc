// VinePPO's advantages from a frozen reward model's scores of the prefixes (docs/data_and_grading.md).
(import '../demo_vineppo.jsonnet') + {
  name: 'reward_model',
  credit+: { num_continuations: 0 },
  values: {
    credit: 'process',
    predictors: {
      process: { kind: 'reward_model', path: 'runs/reward_model_arithmetic/final/reward_model', output: 'probability' },
    },
  },
}
