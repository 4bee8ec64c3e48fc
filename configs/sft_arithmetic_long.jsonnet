// Makes the policy that ships as embedded:arithmetic_long.
local short = import 'sft_arithmetic.jsonnet';
local task = import 'lib/task.libsonnet';

short + {
  name: 'sft_arithmetic_long',
  task: task.arithmetic_long { num_train_problems: 40000 },
  engine+: { max_model_len: 160 },
  sampling+: { max_tokens: 112 },
  optimization+: { max_tokens: 160 },
}
