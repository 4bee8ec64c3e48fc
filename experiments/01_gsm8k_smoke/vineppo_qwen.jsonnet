// The config of gsm8k_qwen2.5_0.5b_vineppo (chat template, \boxed) at a size for two CPU cores.
local hardware = import '../../configs/lib/hardware.libsonnet';
local base = import '../../configs/gsm8k_qwen2.5_0.5b_vineppo.jsonnet';

base + hardware.on_cpu + {
  name: 'gsm8k_smoke_vineppo_qwen',
  num_iterations: 2,
  model+: { gradient_checkpointing: false },
  task+: { num_test_problems: 8 },
  engine+: { max_model_len: 640 },
  sampling+: { max_tokens: 320 },
  rollouts: { num_prompts: 4, num_samples: 2 },
  credit+: { num_continuations: 2 },
  optimization+: { batch_size: 4 },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint+: { every: 0 },
}
