// larger.jsonnet on MATH's problems of levels 1 and 2, with half a billion weights.
local task = import '../../configs/lib/task.libsonnet';
local larger = import 'larger.jsonnet';
local models = 'runs/19_real_model_models/';

larger {
  name: 'math',
  model+: { path: models + 'qwen' },
  task: task.math_chat {
    train_path: models + 'math_easy.jsonl',
    test_path: models + 'math_easy.jsonl',
    num_test_problems: 1,
  },
  engine+: { max_model_len: 768 },
  sampling+: { max_tokens: 320 },
}
