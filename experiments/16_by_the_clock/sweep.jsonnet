// Every method at the same rates for 40 iterations, on a seed that no comparison uses.
local methods = import 'methods.libsonnet';
{
  runs: [
    {
      name: 'credit_sheet_%s_%s' % [method, rate],
      seed: 101,
      config: 'credit_sheet_%s.jsonnet' % methods[method].config,
      set: methods[method].set {
        'optimization.learning_rate': std.parseJson(rate),
        num_iterations: 40,
        'evaluation.every': 0,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for rate in ['1e-4', '5e-5', '2.5e-5']
    for method in std.objectFields(methods)
    if method != 'joined_privileged_slower'
  ],
  evaluations: [],
}
