// VinePPO and the two critics on long chains, their checkpoints kept: 04, 05, 07 and 08 take them too.
{
  runs: [
    {
      name: if method == 'vineppo' then 'long_vineppo_k9' else 'long_' + method,
      seed: seed,
      config: '../02_baselines/long_%s.jsonnet' % method,
      set: {
        num_iterations: 12,
        'evaluation.every': 3,
        'checkpoint.every': 3,
        'checkpoint.keep': 4,
        'logging.wandb_project': null,
        [if method == 'vineppo' then 'credit.num_continuations']: 9,
      },
    }
    for seed in [1, 2, 3]
    for method in ['vineppo', 'ppo', 'modern_ppo']
  ],
  evaluations: [],
}
