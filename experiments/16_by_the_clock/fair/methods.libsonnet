// One update for all: no whitening, a sum over tokens. Only the advantages differ.
local recipes = import '../../../configs/lib/recipes.libsonnet';
local shrunk = (import '../credit_sheet_ppo.jsonnet') + recipes.shrinkage;
local plain(config, set={}) = { config: config, set: set };
local verifier = 'experiments/16_by_the_clock/verifier.py';
{
  rloo: plain('rloo'),
  exact: plain('oracle', { 'values.predictors.oracle.of': 'policy' }),
  verifier: plain('rloo', { 'credit.kind': verifier + ':Verdicts' }),
  partial: plain('rloo', { 'task.grading.reward_path': verifier + ':reward' }),
  martingale: plain('vine_privileged'),
  joined_privileged: plain('joined_privileged'),
  joined_shrunk: plain('joined', {
    'credit.root': 'shrunk_mean',
    'values.predictors': shrunk.values.predictors,
  }),
  joined_taught: plain('joined', {
    'credit.root': 'shrunk_mean',
    'values.credit': 'taught',
    'values.predictors': shrunk.values.predictors { taught: { kind: 'posterior', learns_from: 'monte_carlo' } },
  }),
  grpo: plain('grpo'),
  ppo: plain('ppo', { 'critic.learning_rate': 1e-4, 'critic.schedule': 'linear' }),
  ppo_mean: plain('ppo', $.ppo.set { 'critic.head_init': 'mean' }),
  reinforce: plain('reinforce'),
  rloo_shrunk: plain('rloo', { credit: shrunk.credit, values: shrunk.values }),
  vineppo: plain('vineppo', { 'credit.num_continuations': 3 }),
  rloo_8: plain('rloo', { 'rollouts.num_samples': 8, 'optimization.batch_size': 32 }),
  rloo_16: plain('rloo', { 'rollouts.num_samples': 16, 'optimization.batch_size': 64 }),
}
