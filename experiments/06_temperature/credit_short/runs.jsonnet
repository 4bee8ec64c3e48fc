// Temperatures of training on credit_short above those of 11, which has 1.
{
  runs: [
    {
      name: 'credit_short_%s_t%g' % [method, temperature],
      seed: seed,
      config: '../../../configs/credit_short_%s.jsonnet' % method,
      set: {
        'sampling.temperature': temperature,
        'evaluation.every': 60,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
        [if method == 'vineppo' then 'credit.num_continuations']: 1,
      },
    }
    for seed in std.range(1, 8)
    for temperature in [1.3, 1.6]
    for method in ['rloo', 'ppo', 'vineppo']
  ],
  // The last policies as trained; while training all are evaluated at 1.
  evaluations: [],
}
