// model.jsonnet on a CPU: what two cores sample of a model of 100 to 500 million parameters in a
// quarter of a minute.
local hardware = import '../../configs/lib/hardware.libsonnet';
local model = import 'model.jsonnet';

model + hardware.on_cpu + {
  // These fit into memory without recomputing activations.
  model+: { gradient_checkpointing: false },
  sampling+: { max_tokens: 64 },
  rollouts: { num_prompts: 4, num_samples: 3 },
  credit+: { num_continuations: 3 },
  optimization+: { batch_size: 12, micro_batch_size: 4 },
}
