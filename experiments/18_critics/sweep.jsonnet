// A third, once and three times the rate of every value that learns, on a seed that nothing else uses.
local configs = { critics: import 'values.jsonnet', further: import 'further.jsonnet' };
{
  runs: [
    {
      local predictors = configs[kind].values.predictors,
      name: '%s_x%s' % [kind, factor],
      seed: 101,
      config: { critics: 'values.jsonnet', further: 'further.jsonnet' }[kind],
      set: {
        num_iterations: 3,
        'critic.warmup_iterations': 3,
        'critic.learning_rate': 1e-3 * std.parseJson(factor),
        'checkpoint.every': 0,
      } + {
        ['values.predictors.%s.learning_rate' % name]:
          predictors[name].learning_rate * std.parseJson(factor)
        for name in std.objectFields(predictors)
        if std.objectHas(predictors[name], 'learning_rate') && name != 'asked'
      },
    }
    for kind in std.objectFields(configs)
    for factor in ['0.3', '1', '3']
  ],
  evaluations: [],
}
