// Makes the policy that ships as embedded:credit_short.
local base = import '../../configs/sft_arithmetic.jsonnet';
local task = import '../../configs/lib/task.libsonnet';

base + {
  name: 'sft_credit_short',
  task: task.credit_short { num_train_problems: 51200 },
  sampling+: { max_tokens: 96 },
  optimization+: { num_epochs: 2 },
}
