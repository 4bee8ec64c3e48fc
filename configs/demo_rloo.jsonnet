// RLOO on the demo's task.
local algorithm = import 'lib/algorithm.libsonnet';
local setting = import 'lib/setting.libsonnet';

algorithm.rloo + setting.short + {
  name: 'demo_rloo',
  optimization+: { learning_rate: 1e-4 },
}
