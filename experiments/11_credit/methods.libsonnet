// The methods that are swept and compared on credit_short, over configs/credit_short_*.jsonnet.
local continuations(k) = { config: 'vineppo', set: { 'credit.num_continuations': k } };
local plain(config) = { config: config, set: {} };
{
  vineppo_k1: continuations(1),
  vineppo_k3: continuations(3),
  vineppo_k9: continuations(9),
  vineppo_probe: plain('vineppo_probe'),
  vine_efficient: plain('martingale'),
  vine_privileged: plain('vine_privileged'),
  joined: plain('joined'),
  oracle: plain('oracle'),
  rloo: plain('rloo'),
  grpo: plain('grpo'),
  reinforce: plain('reinforce'),
  ppo: plain('ppo'),
  // Step-level GAE below λ = 1, and a critic that has learned before the policy moves.
  ppo_step: {
    config: 'ppo',
    set: { 'credit.level': 'step', 'credit.policy_lambda': 0.9, 'critic.warmup_iterations': 5 },
  },
  modern_ppo: plain('modern_ppo'),
  spo_chain: plain('spo_chain'),
  spo_tree: plain('spo_tree'),
  // The same rollouts with the gradient of their rewards: nothing of the own child in the baseline, no segment more often
  // than its leaves (docs/estimators.md).
  spo_tree_others: { config: 'spo_tree', set: { 'credit.baseline': 'others', 'credit.train_shared': 'by_leaves' } },
}
