// The comparison on credit_short: every method at the rate that the sweep chose (sweep.csv), 8 seeds.
local methods = import 'methods.libsonnet';
local rates = {
  vineppo_k3: 5e-5,
  vineppo_k9: 5e-5,
  oracle: 5e-5,
  rloo: 5e-5,
  grpo: 5e-5,
  reinforce: 5e-5,
  ppo: 5e-5,
  ppo_step: 5e-5,
  modern_ppo: 5e-5,
};
{
  runs: [
    {
      name: 'credit_short_' + method,
      seed: seed,
      config: '../../configs/credit_short_%s.jsonnet' % methods[method].config,
      set: methods[method].set {
        'optimization.learning_rate': rates[method],
        'evaluation.every': 20,
        'checkpoint.every': 20,
        'checkpoint.keep': 3,
        'logging.wandb_project': null,
      },
    }
    for seed in std.range(1, 8)
    for method in std.objectFields(rates)
  ],
  evaluations: [],
}
