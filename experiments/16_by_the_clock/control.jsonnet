// What of the lead is not step credit: RLOO's advantages in the martingale's own update (whitened, a mean over
// tokens), at the rates of the sweep.
{
  runs: [
    {
      name: 'credit_sheet_control_%s' % rate,
      seed: 101,
      config: '../../configs/credit_sheet_vine_privileged.jsonnet',
      set: {
        credit: { kind: 'rloo', segmenter: { kind: 'lines' } },
        values: { credit: null, predictors: {} },
        'optimization.learning_rate': std.parseJson(rate),
        num_iterations: 40,
        'evaluation.every': 0,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for rate in ['1e-4', '5e-5', '2.5e-5']
  ],
  evaluations: [],
}
