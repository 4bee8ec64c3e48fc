// What PPO loses by the head that its critic starts with: the published N(0, 1/√(H+1)), or zero.
local demo = { num_iterations: 8, 'evaluation.every': 4 };
local long = { num_iterations: 12, 'evaluation.every': 3 };
local ppo(setting, head) = { name: '%s_ppo_%s_head' % [setting, head], config: (if setting == 'demo' then '../../../configs/' else '../') + setting + '_ppo', set: { 'critic.head_init': head } };
local methods = [
  ppo('demo', 'zero') + { set+: demo },
  ppo('demo', 'normal') + { set+: demo },
  { name: 'demo_vineppo_k9', config: '../../../configs/demo_vineppo', set: demo { 'credit.num_continuations': 9 } },
  ppo('long', 'zero') + { set+: long },
  ppo('long', 'normal') + { set+: long },
];
{
  runs: [
    method {
      seed: seed,
      config: '%s.jsonnet' % method.config,
      set+: { 'checkpoint.every': 0, 'logging.wandb_project': null },
    }
    for seed in std.range(1, 5)
    for method in methods
  ],
  evaluations: [],
}
