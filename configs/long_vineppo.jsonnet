// The experiments: VinePPO on long arithmetic chains, where step credit matters.
local demo = import 'demo_vineppo.jsonnet';
local model = import 'lib/model.libsonnet';
local task = import 'lib/task.libsonnet';

demo + {
  name: 'long_vineppo',
  num_iterations: 30,
  model: model.arithmetic_long,
  task: task.arithmetic_long,
  sampling+: { max_tokens: 112 },
  engine+: { max_model_len: 160 },
}
