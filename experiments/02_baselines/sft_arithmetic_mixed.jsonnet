// From embedded:arithmetic_short towards embedded:arithmetic_long: chains of all lengths teach the
// policy to find the next operand, which on long ones alone is learned late.
local short = import '../../configs/sft_arithmetic.jsonnet';
local model = import '../../configs/lib/model.libsonnet';
local task = import '../../configs/lib/task.libsonnet';

short + {
  name: 'sft_arithmetic_mixed',
  model: model.arithmetic_short { architecture: null },
  task: task.arithmetic_long { num_train_problems: 100000, min_operations: 4 },
  engine+: { max_model_len: 160 },
  sampling+: { max_tokens: 112 },
  optimization+: { learning_rate: 3e-3, max_tokens: 160 },
}
