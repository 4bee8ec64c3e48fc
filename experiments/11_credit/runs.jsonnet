// The comparison on credit_short: every method at the rate that the sweep chose (sweep.csv), 8 seeds.
local methods = import 'methods.libsonnet';
local rates = {
  vineppo_k3: 1e-4,
  vineppo_k9: 1e-4,
  oracle: 1e-4,
  rloo: 1e-4,
  grpo: 1e-4,
  reinforce: 1e-4,
  ppo: 1e-4,
  ppo_step: 1e-4,
  modern_ppo: 1e-4,
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
