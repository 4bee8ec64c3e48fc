// Temperatures of training on credit_short above those of 11, which has 1: three seeds of both, eight
// of the higher, where K = 3 takes the place of K = 1.
local leaves = {
  rloo: '../../11_credit/credit_short_rloo.jsonnet',
  ppo: '../../../configs/credit_short_ppo.jsonnet',
  vineppo: '../../../configs/credit_short_vineppo.jsonnet',
};
local continuations = { vineppo_k1: 1, vineppo_k3: 3 };
local run(method, temperature, seed) = {
  name: 'credit_short_%s_t%g' % [method, temperature],
  seed: seed,
  config: leaves[std.split(method, '_')[0]],
  set: {
    'sampling.temperature': temperature,
    'evaluation.every': 60,
    'checkpoint.every': 0,
    'logging.wandb_project': null,
    [if std.objectHas(continuations, method) then 'credit.num_continuations']: continuations[method],
  },
};
{
  runs: [
    run(method, temperature, seed)
    for seed in std.range(1, 3)
    for temperature in [1.3, 1.6]
    for method in ['rloo', 'ppo', 'vineppo_k1']
  ] + [
    run(method, 1.6, seed)
    for seed in std.range(1, 8)
    for method in ['rloo', 'ppo', 'vineppo_k3']
    if seed > 3 || method == 'vineppo_k3'
  ],
  // The last policies as trained; while training all are evaluated at 1.
  evaluations: [],
}
