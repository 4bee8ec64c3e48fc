// REINFORCE++ on the demo's task.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.reinforce_plus_plus + setting.short + {
  name: 'reinforce_plus_plus',
  optimization+: { learning_rate: 1e-4 },
}
