// The drill, an operation a turn: VinePPO through the environment, GiGPO, and the group's advantage alone.
local methods = {
  vineppo: { config: 'recipes/drill' },
  gigpo: { config: 'recipes/gigpo' },
  group: { config: 'recipes/gigpo', set: { 'credit.step_weight': 0 } },
};
{
  runs: [
    {
      name: 'drill_' + method,
      seed: seed,
      config: '../../configs/%s.jsonnet' % methods[method].config,
      set: std.get(methods[method], 'set', {}) {
        'evaluation.every': 4,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for seed in std.range(1, 8)
    for method in std.objectFields(methods)
  ],
  evaluations: [],
}
