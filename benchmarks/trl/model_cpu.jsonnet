// model.jsonnet on a CPU: an iteration of a model of 100 million parameters in a quarter of a minute.
local hardware = import '../../configs/lib/hardware.libsonnet';
local model = import 'model.jsonnet';

model + hardware.on_cpu + {
  sampling+: { max_tokens: 64 },
  rollouts: { num_prompts: 2, num_samples: 4 },
  optimization+: { batch_size: 8, micro_batch_size: 4 },
}
