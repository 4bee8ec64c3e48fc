// The comparison on credit_short: every method at the rate that the sweep chose (sweep.csv), 8 seeds.
local methods = import 'methods.libsonnet';

{
  runs: [
    {
      name: 'credit_short_' + method,
      seed: seed,
      config: methods[method].config + '.jsonnet',
      set: methods[method].set {
        'optimization.learning_rate': 5e-5,
        'evaluation.every': 20,
        'checkpoint.every': 20,
        'checkpoint.keep': 3,
        'logging.wandb_project': null,
      },
    }
    for seed in std.range(1, 8)
    for method in std.objectFields(methods)
    // Swept or set up, and not compared here: sweep.csv, 06, 13 and 18.
    if !std.member(['ppo_step', 'vineppo_k1', 'vine_privileged'], method)
  ],
  evaluations: [],
}
