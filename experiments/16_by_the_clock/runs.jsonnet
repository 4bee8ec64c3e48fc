// The comparison: every method at the rate that its sweep chose (sweep.csv), but for joined_privileged_slower; seeds of one number
// beside each other, as they share the machine.
local methods = import 'methods.libsonnet';
local rates = { oracle: 1e-4, joined_privileged: 1e-4, others: 5e-5 };
// So that no method stays on one core.
local in_order(seed, methods) = if seed % 2 == 0 then std.reverse(methods) else methods;
{
  seeds:: std.range(1, 8),
  compared:: std.objectFields(methods),
  runs: [
    {
      name: 'credit_sheet_%s' % method,
      seed: seed,
      config: 'credit_sheet_%s.jsonnet' % methods[method].config,
      set: methods[method].set {
        'optimization.learning_rate': std.get(rates, method, rates.others),
        'evaluation.every': 20,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in $.seeds
    for method in in_order(seed, $.compared)
  ],
  evaluations: [],
}
