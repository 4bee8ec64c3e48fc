// GiGPO, turns in groups of equal states, on the embedded environment.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';
local task = import '../lib/task.libsonnet';

algorithm.gigpo + setting.short + {
  name: 'gigpo',
  num_iterations: 8,
  task: task.drill,
  optimization+: { learning_rate: 6e-5 },
  evaluation+: { every: 0 },
}
