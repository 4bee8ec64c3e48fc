// The policy and the steps of 19_real_model/gsm8k_values.jsonnet. The policy stands still; a critic learns from 192
// problems of 4 rollouts, at the rates that 19_real_model tuned.
local hardware = import '../../configs/lib/hardware.libsonnet';
local values = import '../19_real_model/gsm8k_values.jsonnet';
local models = 'runs/19_real_model_models/';

values {
  name: 'gsm8k_noise',
  num_iterations: 4,
  task+: { train_path: models + 'gsm8k_noise_critic.jsonl' },
  engine: (hardware.gpu + hardware.on_cpu).engine { max_model_len: 384, max_num_seqs: 256 },
  rollouts: { num_prompts: 48, num_samples: 4 },
  optimization+: { batch_size: 48, micro_batch_size: 16, logprobs_micro_batch_size: 32 },
  critic+: {
    path: models + 'sft_gsm8k_half',
    learning_rate: 1e-5,
    head_learning_rate: 1e-4,
    batch_size: 24,
    micro_batch_size: 24,
    warmup_iterations: 0,
  },
  values: { credit: null },
  checkpoint: { every: 4, keep: 1 },
}
