// The likelihood of right answers beside the own loss, and reinforcement learning in RestEM's three large
// batches, at the best weight and rate of sweep.csv.
local leaves = {
  vine_privileged: '../../configs/recipes/privileged.jsonnet',
  oracle: '../../configs/recipes/oracle.jsonnet',
};
local leaf(setting, method) =
  if setting == 'credit_sheet' then '../16_by_the_clock/credit_sheet_%s.jsonnet' % method
  else std.get(leaves, method, '../11_credit/credit_short_%s.jsonnet' % method);
local run(setting, method, seed, suffix, set) = {
  name: '%s_%s_%s' % [setting, method, suffix],
  seed: seed,
  config: leaf(setting, method),
  set: set { 'checkpoint.every': 0, 'logging.wandb_project': null },
};
{
  runs: [
    run(setting, method, seed, 'positive', {
      'optimization.positive_examples': { coef: 1, min_reward: 0.5 },
      'optimization.learning_rate': 5e-5,
      'evaluation.every': 20,
    })
    for setting in ['credit_short', 'credit_sheet']
    for seed in std.range(1, 8)
    for method in ['grpo', 'vine_privileged']
  ] + [
    run('credit_short', method, seed, 'large', {
      'optimization.learning_rate': if method == 'vine_privileged' then 1.25e-5 else 2.5e-5,
      'optimization.num_epochs': 4,
      'rollouts.num_prompts': 40,
      'rollouts.num_samples': 8,
      num_iterations: 3,
      'evaluation.every': 3,
    })
    for seed in std.range(1, 8)
    for method in ['grpo', 'rloo', 'vine_privileged', 'oracle']
  ],
  evaluations: [],
}
