// The likelihood of right answers beside the own loss, at the best weight and rate of sweep.csv.
local seeds = { credit_short: std.range(1, 8), credit_sheet: std.range(1, 5) };
{
  runs: [
    {
      name: '%s_%s_positive' % [setting, method],
      seed: seed,
      config: '../../configs/%s_%s.jsonnet' % [setting, method],
      set: {
        'optimization.positive_examples': { coef: 1, min_reward: 0.5 },
        'optimization.learning_rate': 5e-5,
        'evaluation.every': 20,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for setting in std.objectFields(seeds)
    for seed in seeds[setting]
    for method in ['grpo', 'vine_privileged']
  ],
  evaluations: [],
}
