// Qwen2.5-Coder-0.5B-Instruct on 480 of GSM8K's own solutions, for gsm8k_values.jsonnet: a line a calculation.
local hardware = import '../../configs/lib/hardware.libsonnet';
local sft = import '../../configs/gsm8k_smollm2_135m_sft.jsonnet';
local models = 'runs/19_real_model_models/';

sft + hardware.on_cpu + hardware.without_vllm + hardware.without_logprobs_pass + {
  name: 'sft_gsm8k',
  model+: { path: models + 'qwen', gradient_checkpointing: false },
  task+: {
    train_path: models + 'gsm8k_lines_train.jsonl',
    test_path: models + 'gsm8k_lines_test.jsonl',
    num_test_problems: 8,
  },
  engine+: { max_model_len: 384, max_num_seqs: 256 },
  sampling+: { temperature: 0.6, top_p: 1, max_tokens: 128 },
  optimization+: { learning_rate: 1e-5, num_epochs: 1, batch_size: 32, micro_batch_size: 16, max_tokens: 384 },
  evaluation+: { num_samples: 1 },
  checkpoint: { every: 20, keep: 1 },
  logging+: { wandb_project: null },
}
