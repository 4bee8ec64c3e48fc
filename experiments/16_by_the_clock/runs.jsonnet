// The comparison: on credit_sheet every method at the rate that its sweep chose (sweep.csv), on
// credit_short at that of 11; seeds of one number beside each other, as they share the machine.
local methods = import 'methods.libsonnet';
local rates = { sheet: { oracle: 1e-4, others: 5e-5 }, short: { others: 5e-5 } };
{
  runs: [
    {
      name: 'credit_%s_%s' % [setting, method],
      seed: seed,
      config: '../../configs/credit_%s_%s.jsonnet' % [setting, methods[method].config],
      set: methods[method].set {
        'optimization.learning_rate': std.get(rates[setting], method, rates[setting].others),
        'evaluation.every': 20,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for setting in ['sheet', 'short']
    for seed in std.range(1, 8)
    for method in std.objectFields(methods)
    if setting == 'sheet' || method != 'oracle'  // which is in 11
  ],
  evaluations: [],
}
