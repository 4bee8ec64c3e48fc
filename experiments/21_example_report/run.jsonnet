// One iteration on three GSM8K problems of two calculations, which the policy solves sometimes: the answers of the
// example report. The policy hardly moves; its states are valued as it sampled them.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local loss = import '../../configs/lib/loss.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local task = import '../../configs/lib/task.libsonnet';
local models = 'runs/21_models/';

algorithm.vineppo + hardware.gpu + hardware.on_cpu + logging + loss.without_reference + {
  name: 'example',
  seed: 1,
  num_iterations: 1,
  model: model.pretrained(models + 'qwen') + model.adapters + { gradient_checkpointing: false },
  task: task.gsm8k_chat { train_path: models + 'gsm8k.jsonl', test_path: models + 'test.jsonl', num_test_problems: 1 },
  engine+: { max_model_len: 640, max_num_seqs: 128 },
  sampling+: { temperature: 0.8, max_tokens: 400 },
  rollouts: { num_prompts: 3, num_samples: 3 },
  credit+: { num_continuations: 3, segmenter: { kind: 'lines' } },
  optimization+: {
    learning_rate: 1e-6,
    num_epochs: 1,
    batch_size: 9,
  },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 1, keep: 1 },
  logging+: { wandb_project: null },
}
