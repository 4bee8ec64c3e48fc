// As long as is sensible on two CPU cores: one epoch of 640 demonstrations, which run.sh cuts off.
local hardware = import '../../configs/lib/hardware.libsonnet';
local base = import '../../configs/gsm8k_smollm2_135m_sft.jsonnet';

base + hardware.on_cpu + hardware.without_logprobs_pass + {
  name: 'gsm8k_smoke_sft',
  model+: { gradient_checkpointing: false },
  task+: { num_test_problems: 64 },
  engine+: { max_model_len: 512 },
  sampling+: { max_tokens: 200 },
  optimization+: { num_epochs: 1, batch_size: 16, micro_batch_size: 4, max_tokens: 512 },
  evaluation+: { every: 0, num_samples: 2 },
  checkpoint+: { every: 20 },
}
