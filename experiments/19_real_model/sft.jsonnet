// SmolLM2-135M-Instruct on the demonstrations of GSM8K's problems of one or two calculations: where learning.jsonnet starts.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local task = import '../../configs/lib/task.libsonnet';

local models = 'runs/19_real_model_models/';
algorithm.sft + hardware.gpu + hardware.on_cpu + hardware.without_logprobs_pass + logging + {
  name: 'gsm8k_short_sft',
  seed: 0,
  model: model.finetuned(models + 'smollm2') { gradient_checkpointing: false },
  task: task.gsm8k {
    train_path: models + 'gsm8k_short_train.jsonl',
    test_path: models + 'gsm8k_short_test.jsonl',
    num_test_problems: null,
  },
  engine+: { max_model_len: 512, cpu_kv_cache_gib: 1 },
  sampling: { temperature: 0.6, top_p: 1, max_tokens: 160 },
  optimization+: { learning_rate: 1e-4, num_epochs: 3, batch_size: 32, micro_batch_size: 8, max_tokens: 512 },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 0, keep: 1 },
  logging+: { wandb_project: null },
}
