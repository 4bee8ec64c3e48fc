// GRPO on the demo's task.
local algorithm = import 'lib/algorithm.libsonnet';
local setting = import 'lib/setting.libsonnet';

algorithm.grpo + setting.short + {
  name: 'demo_grpo',
  optimization+: { learning_rate: 6e-5 },
}
