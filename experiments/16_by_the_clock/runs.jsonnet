// The comparison, every method at the rate that its sweep chose: credit_sheet here (sweep.csv),
// credit_short in 11 (sweep.csv there) and, of methods new since, here.
local methods = import 'methods.libsonnet';
local rates = {
  sheet: { default: 5e-5 },
  short: { default: 5e-5 },
};
local run(setting, method, of, seed) = {
  name: 'credit_%s_%s' % [setting, method],
  seed: seed,
  config: '../../configs/credit_%s_%s.jsonnet' % [setting, of[method].config],
  set: of[method].set {
    'optimization.learning_rate': std.get(rates[setting], method, rates[setting].default),
    'evaluation.every': 10,
    'checkpoint.every': 0,
    'logging.wandb_project': null,
  },
};
{
  runs: [
    run('sheet', method, methods.all, seed)
    for seed in std.range(1, 8)
    for method in std.objectFields(methods.all)
  ] + [
    run('short', method, methods.cheap, seed)
    for seed in std.range(1, 16)
    for method in std.objectFields(methods.cheap)
  ],
  evaluations: [],
}
