// Makes the policy that ships as embedded:arithmetic_long, from the end of sft_arithmetic_mixed.
local mixed = import 'sft_arithmetic_mixed.jsonnet';
local task = import '../../configs/lib/task.libsonnet';

mixed + {
  name: 'sft_arithmetic_long',
  model+: { path: 'runs/sft_arithmetic_mixed/final/policy' },
  task: task.arithmetic_long { num_train_problems: 44800 },
  optimization+: { learning_rate: 2e-3 },
}
