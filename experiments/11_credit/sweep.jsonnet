// Every method at the same rates (at 2e-4 the two that were run collapse), on a seed that no comparison
// uses; VinePPO's is found with K = 3.
local methods = import 'methods.libsonnet';
{
  runs: [
    {
      name: 'credit_short_%s_%s' % [method, rate],
      seed: seed,
      config: methods[method].config + '.jsonnet',
      set: methods[method].set {
        'optimization.learning_rate': std.parseJson(rate),
        'evaluation.every': 0,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in [101]
    for rate in ['1e-4', '5e-5', '2.5e-5']
    for method in ['rloo', 'oracle', 'vineppo_k3', 'vine_efficient', 'vine_privileged', 'joined', 'vineppo_probe', 'ppo', 'grpo', 'modern_ppo', 'reinforce', 'ppo_step', 'spo_chain', 'spo_tree', 'spo_tree_others']
  ],
  evaluations: [],
}
