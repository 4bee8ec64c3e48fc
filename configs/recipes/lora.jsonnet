// demo_vineppo with adapters of low rank in place of all weights: for a GPU with little memory.
local model = import '../lib/model.libsonnet';

(import '../demo_vineppo.jsonnet') + {
  name: 'lora',
  model+: model.adapters,
  optimization+: { learning_rate: 6e-4 },  // ten times that of all weights
}
