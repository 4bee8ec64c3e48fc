// Every method at the same rates, on a seed that no comparison uses; on credit_short, those that
// ../11_credit/sweep.csv lacks.
local methods = import 'methods.libsonnet';
local run(setting, method, rate) = {
  name: 'credit_%s_%s_%s' % [setting, method, rate],
  seed: 101,
  config: '../../configs/credit_%s_%s.jsonnet' % [setting, methods.all[method].config],
  set: methods.all[method].set {
    'optimization.learning_rate': std.parseJson(rate),
    num_iterations: 40,
    'evaluation.every': 0,
    'checkpoint.every': 0,
    'logging.wandb_project': null,
  },
};
local rates = ['1e-4', '5e-5', '2.5e-5'];
{
  runs: [run('short', method, rate) for rate in rates for method in ['vine_privileged', 'ppo_view']]
        + [run('sheet', method, rate) for rate in rates for method in std.objectFields(methods.all)],
  evaluations: [],
}
