// PPO whose critic has twice the policy's layers (deepen.py), at three rates of the critic's own, on a
// seed that no comparison uses.
{
  runs: [
    {
      name: 'credit_short_ppo_bigger_' + rate,
      seed: 101,
      config: '../../configs/credit_short_ppo.jsonnet',
      set: {
        'critic.path': 'runs/deep_critic',
        'critic.learning_rate': std.parseJson(rate),
        'evaluation.every': 0,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for rate in ['1e-3', '3e-4', '1e-4']
  ],
  evaluations: [],
}
