// SmolLM2-135M-Instruct on the demonstrations of SVAMP, for learning.jsonnet.
local hardware = import '../../configs/lib/hardware.libsonnet';
local sft = import '../../configs/gsm8k_smollm2_135m_sft.jsonnet';
local models = 'runs/19_real_model_models/';

sft + hardware.on_cpu + hardware.without_logprobs_pass + {
  name: 'sft_svamp',
  model+: { path: models + 'smollm2', dtype: 'float32', gradient_checkpointing: false },
  task+: {
    train_path: models + 'svamp_train.jsonl',
    test_path: models + 'svamp_test.jsonl',
    num_test_problems: 300,
  },
  engine+: { dtype: 'float32', max_model_len: 256 },
  sampling+: { temperature: 0.6, top_p: 1, max_tokens: 48 },
  optimization+: { learning_rate: 1e-4, num_epochs: 2, batch_size: 32, micro_batch_size: 16, max_tokens: 256 },
  evaluation+: { num_samples: 2 },
  checkpoint: { every: 20, keep: 1 },
  logging+: { wandb_project: null },
}
