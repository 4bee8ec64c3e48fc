// demo_reinforce on long arithmetic chains, where step credit matters.
local demo = import 'demo_reinforce.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.long + {
  name: 'long_reinforce',
  optimization+: { learning_rate: 6e-5 },  // the demo's drifts here
}
