// The demo: VinePPO on short arithmetic chains, a few minutes on two cores.
local algorithm = import 'lib/algorithm.libsonnet';
local setting = import 'lib/setting.libsonnet';

algorithm.vineppo + setting.short + {
  name: 'demo_vineppo',
  credit+: { num_continuations: 5 },
  optimization+: { learning_rate: 6e-5 },
}
