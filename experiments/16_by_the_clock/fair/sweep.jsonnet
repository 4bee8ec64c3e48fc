// RLOO's rate, with 4 × 4 and with 16 × 8 rollouts an update, on a seed that no comparison uses.
local fair = import 'runs.jsonnet';
local wide = import 'wide.jsonnet';
{
  runs: [fair.run('rloo', rate, 101) + { name: 'credit_sheet_rloo_%s' % rate } for rate in [1e-4, 5e-5]] +
        [wide.run('rloo', rate, 101) + { name: 'credit_sheet_rloo_wide_%s' % rate } for rate in [1e-4, 2e-4]],
  evaluations: [],
}
