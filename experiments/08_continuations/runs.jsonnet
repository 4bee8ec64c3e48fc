// VinePPO on long chains at K = 1, 3 and 27; K = 9 is among the runs of 03. The fewer the continuations,
// the more iterations. On credit_short K = 1 alone: the others are among the runs of 11 and 12.
local iterations = { '1': 30, '3': 15, '27': 6 };
{
  runs: [
    {
      name: 'long_vineppo_k' + k,
      seed: seed,
      config: '../02_baselines/long_vineppo.jsonnet',
      set: {
        num_iterations: iterations[k],
        'credit.num_continuations': std.parseInt(k),
        'evaluation.every': if k == '27' then 1 else 3,
        'checkpoint.every': 3,
        'checkpoint.keep': 1,
        'logging.wandb_project': null,
      },
    }
    for seed in [1, 2, 3]
    for k in ['1', '3', '27']
  ] + [
    {
      name: 'credit_short_vineppo_k1',
      seed: seed,
      config: '../../configs/credit_short_vineppo.jsonnet',
      set: {
        'credit.num_continuations': 1,
        'optimization.learning_rate': 5e-5,
        'evaluation.every': 20,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in std.range(1, 8)
  ],
  evaluations: [],
}
