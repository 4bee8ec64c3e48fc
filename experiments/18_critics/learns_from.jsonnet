// PPO's critic, and the same one taught by a continuation of every state in place of the rollouts' rewards; the policy trains alike.
local ppo = import '../16_by_the_clock/credit_sheet_ppo.jsonnet';
local drawn = { kind: 'monte_carlo', num_continuations: 1, identical_prefixes: 'share', states: null };
local critics = {
  rewards: { critic: ppo.critic },
  continuations: { critic: ppo.critic { learns_from: 'drawn' }, values: { predictors: { drawn: drawn } } },
};
{
  runs: [
    {
      name: 'credit_sheet_ppo_' + name,
      seed: seed,
      config: '../16_by_the_clock/credit_sheet_ppo.jsonnet',
      set: critics[name] + {
        'optimization.learning_rate': 5e-5,
        'critic.learning_rate': 5e-5,
        'evaluation.every': 0,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in std.range(1, 3)
    for name in std.objectFields(critics)
  ],
  evaluations: [],
}
