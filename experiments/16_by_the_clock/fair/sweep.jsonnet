// RLOO's rate, on a seed that no comparison uses.
local fair = import 'runs.jsonnet';
{
  runs: [fair.run('rloo', rate, 101) + { name: 'credit_sheet_rloo_%s' % rate } for rate in [1e-4, 5e-5]],
  evaluations: [],
}
