// model.jsonnet on a CPU: an iteration of a model of 100 million parameters in about half a minute.
local hardware = import '../../configs/lib/hardware.libsonnet';
local model = import 'model.jsonnet';

model + hardware.on_cpu + {
  sampling+: { max_tokens: 96 },
  rollouts: { num_prompts: 4, num_samples: 4 },
  optimization+: { batch_size: 8, micro_batch_size: 4 },
}
