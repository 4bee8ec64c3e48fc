// Reinforcement learning beside RestEM, at the best rates of sweep.csv.
local large = {
  // In its schedule: three batches of 40 x 8 rollouts, four epochs each.
  num_iterations: 3,
  'rollouts.num_prompts': 40,
  'rollouts.num_samples': 8,
  'optimization.num_epochs': 4,
  'optimization.learning_rate': 2.5e-5,
  'evaluation.every': 1,
};
local positive = {
  // In 11's, with the likelihood of right answers beside the own loss.
  'optimization.positive_examples': { coef: 1, min_reward: 0.5 },
  'optimization.learning_rate': 5e-5,
  'evaluation.every': 20,
};
local run(setting, method, variant, set) = function(seed) {
  name: '%s_%s_%s' % [setting, method, variant],
  seed: seed,
  config: '../../configs/%s_%s.jsonnet' % [setting, method],
  set: set { 'checkpoint.every': 0, 'logging.wandb_project': null },
};
{
  runs: [
    run(setting, method, 'positive', positive)(seed)
    for setting in ['credit_short', 'credit_sheet']
    for seed in std.range(1, 8)
    for method in ['grpo', 'vine_privileged']
  ] + [
    run('credit_short', method, 'large', large)(seed)
    for seed in std.range(1, 5)
    for method in ['grpo', 'oracle', 'vine_privileged']
  ],
  evaluations: [],
}
