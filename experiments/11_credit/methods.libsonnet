// The methods that are swept and compared on credit_short, over leaves of configs/ and of this folder.
local continuations(k) = { config: '../../configs/credit_short_vineppo', set: { 'credit.num_continuations': k } };
local plain(config) = { config: 'credit_short_' + config, set: {} };
local recipe(name) = { config: '../../configs/recipes/' + name, set: {} };
{
  vineppo_k1: continuations(1),
  vineppo_k3: continuations(3),
  vineppo_k9: continuations(9),
  vineppo_probe: recipe('probe'),
  vine_efficient: recipe('martingale'),
  vine_privileged: recipe('privileged'),
  joined: recipe('joined'),
  oracle: recipe('oracle'),
  rloo: plain('rloo'),
  grpo: plain('grpo'),
  reinforce: plain('reinforce'),
  ppo: { config: '../../configs/credit_short_ppo', set: {} },
  // Step-level GAE below λ = 1, and a critic that has learned before the policy moves.
  ppo_step: {
    config: '../../configs/credit_short_ppo',
    set: { 'credit.level': 'step', 'credit.policy_lambda': 0.9, 'critic.warmup_iterations': 5 },
  },
  modern_ppo: plain('modern_ppo'),
  spo_chain: recipe('cutpoints'),
  spo_tree: recipe('tree'),
  // The same rollouts with the gradient of their rewards: nothing of the own child in the baseline, no segment more often
  // than its leaves (docs/methods.md).
  spo_tree_others: { config: '../../configs/recipes/tree', set: { 'credit.baseline': 'others', 'credit.train_shared': 'by_leaves' } },
}
