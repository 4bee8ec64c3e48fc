// The runs that tests/data/runs/ is cut from: `vineppo sweep tests/data/runs.jsonnet`, six minutes.
{
  runs: [
    {
      name: 'demo_' + method,
      seed: seed,
      config: '../../configs/demo_%s.jsonnet' % method,
      set: {
        'evaluation.every': 4,
        'checkpoint.every': 4,
        'checkpoint.keep': 5,
        'logging.wandb_project': null,
      },
    }
    for method in ['vineppo', 'ppo']
    for seed in [1, 2]
  ],
  evaluations: [],
}
