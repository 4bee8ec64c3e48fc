// Any causal LM on one GPU: word problems that benchmarks/word_problems.py makes.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local task = import '../../configs/lib/task.libsonnet';

algorithm.vineppo + hardware.gpu + logging + {
  name: 'benchmark_model',
  seed: 1,
  num_iterations: 1,
  model: model.pretrained('set by benchmarks/workload.py'),
  task: task.jsonl('set by benchmarks/workload.py', 'set by benchmarks/workload.py') + {
    prompt: task.gsm8k_chat.prompt,
    // Every response is graded by its last number: a small model seldom writes a box.
    grading+: { extraction: 'last_number', truncated_reward: null },
  },
  engine+: { max_model_len: 384 },
  sampling+: { max_tokens: 128 },
  // One to six steps in a response. Lines would be 1 to 10, by the model's way of writing.
  credit+: { segmenter: { kind: 'tokens', num_tokens: 24 } },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint+: { every: 0 },
  logging+: { wandb_project: null },
}
