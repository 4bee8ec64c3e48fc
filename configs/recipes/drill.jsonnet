// VinePPO over turns, on the embedded environment (docs/environments.md): about a minute.
local demo = import '../demo_vineppo.jsonnet';
local task = import '../lib/task.libsonnet';

demo + {
  name: 'drill',
  num_iterations: 8,
  task: task.drill,
  credit+: { segmenter: { kind: 'turns' } },
  evaluation+: { every: 0 },
}
