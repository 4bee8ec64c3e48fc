// The group baselines on long chains, beside the runs of 03 with VinePPO and the two critics.
{
  runs: [
    {
      name: 'long_' + method,
      seed: seed,
      config: '../02_baselines/long_%s.jsonnet' % method,
      set: {
        num_iterations: 12,
        'evaluation.every': 3,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in [1, 2, 3]
    for method in ['grpo', 'rloo']
  ],
  evaluations: [],
}
