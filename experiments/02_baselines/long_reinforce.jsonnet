// recipes/reinforce_plus_plus on long arithmetic chains, where step credit matters.
local demo = import '../../configs/recipes/reinforce_plus_plus.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.long + {
  name: 'long_reinforce',
  optimization+: { learning_rate: 6e-5 },  // the demo's drifts here
}
