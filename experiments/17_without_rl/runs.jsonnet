// Reinforcement learning in RestEM's schedule: three batches of 40 x 8 rollouts, four epochs each; the
// best rates of sweep.csv.
local rates = { grpo: 2.5e-5, rloo: 2.5e-5, vine_privileged: 2.5e-5, oracle: 2.5e-5 };
{
  runs: [
    {
      name: 'credit_short_%s_large' % method,
      seed: seed,
      config: '../../configs/credit_short_%s.jsonnet' % method,
      set: {
        num_iterations: 3,
        'rollouts.num_prompts': 40,
        'rollouts.num_samples': 8,
        'optimization.num_epochs': 4,
        'optimization.learning_rate': rates[method],
        'evaluation.every': 1,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in std.range(1, 8)
    for method in std.objectFields(rates)
  ],
  evaluations: [],
}
