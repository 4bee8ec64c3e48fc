// The config of gsm8k_smollm2_135m_vineppo at a size that two CPU cores can carry.
local hardware = import '../../configs/lib/hardware.libsonnet';
local base = import '../../configs/gsm8k_smollm2_135m_vineppo.jsonnet';

base + hardware.on_cpu + {
  name: 'gsm8k_smoke_vineppo_smollm2',
  num_iterations: 3,
  model+: { gradient_checkpointing: false },
  task+: { num_test_problems: 64 },
  engine+: { max_model_len: 512 },
  sampling+: { max_tokens: 200 },
  rollouts: { num_prompts: 8, num_samples: 4 },
  credit+: { num_continuations: 3 },
  optimization+: { batch_size: 16 },
  evaluation+: { every: 0, num_samples: 2 },
  checkpoint+: { every: 1 },
}
