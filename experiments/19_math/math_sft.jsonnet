// Qwen2.5-Coder-0.5B-Instruct on 480 short solutions of MATH's levels 1 and 2, for math_values.jsonnet.
local task = import '../../configs/lib/task.libsonnet';
local sft = import '../19_real_model/gsm8k_sft.jsonnet';
local models = 'runs/19_real_model_models/';

sft {
  name: 'sft_math',
  task: task.math {
    train_path: models + 'math_train.jsonl',
    test_path: models + 'math_test.jsonl',
    num_test_problems: 8,
  },
  engine+: { max_model_len: 512 },
  sampling+: { max_tokens: 192 },
  optimization+: { max_tokens: 512 },
}
