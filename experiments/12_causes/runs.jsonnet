// What makes the difference on credit_short: whose values, and which advantage is made of them. The
// other cells are runs of 11 (VinePPO K = 3, count of skills, PPO, RLOO); rates and sizes are its own.
local ppo(set) = { config: '../../configs/credit_short_ppo.jsonnet', set: set };
local own(config, set={}) = { config: config + '.jsonnet', set: set };
local variants = {
  // {critic, K = 3, exact} x {difference of values, return minus value}; λ between the two.
  ppo_vine: own('ppo_vine'),
  group_mean: own('group_mean'),
  vineppo_gae_k3: own('vineppo_gae', { 'values.predictors.sampled.num_continuations': 3 }),
  oracle_gae: own('oracle_gae'),
  oracle_gae_095: own('oracle_gae', { 'credit.policy_lambda': 0.95 }),
  // The strongest critics beside PPO's own; the bigger one's rate is the best of 11's sweep.csv.
  ppo_bigger: ppo({ 'critic.path': 'runs/deep_critic', 'critic.learning_rate': 1e-3 }),
  ppo_shared: own('ppo_shared'),
  ppo_pretrained: ppo({ 'critic.warmup_iterations': 30, num_iterations: 90 }),
};

{
  runs: [
    {
      name: 'credit_short_' + variant,
      seed: seed,
      config: variants[variant].config,
      set: variants[variant].set {
        'optimization.learning_rate': 5e-5,
        'evaluation.every': std.get(variants[variant].set, 'num_iterations', 60),
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in std.range(1, 8)
    for variant in std.objectFields(variants)
  ],
  evaluations: [],
}
