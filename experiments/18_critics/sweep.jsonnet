// A third, once and three times the rate of every value that learns, on a seed that nothing else uses.
local values = import 'values.jsonnet';
local predictors = values.values.predictors;
{
  runs: [
    {
      name: 'critics_x%s' % factor,
      seed: 101,
      config: 'values.jsonnet',
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
    for factor in ['0.3', '1', '3']
  ],
  evaluations: [],
}
