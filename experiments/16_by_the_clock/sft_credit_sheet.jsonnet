// Makes the policy that ships as embedded:credit_sheet, from embedded:credit_long.
local long = import '../11_credit/sft_credit_long.jsonnet';
local task = import '../../configs/lib/task.libsonnet';

long + {
  name: 'sft_credit_sheet',
  model+: { path: 'embedded:credit_long', architecture: null },
  task: task.credit_sheet { num_train_problems: 51200 },
  sampling+: { max_tokens: 144 },
  optimization+: { learning_rate: 2e-3 },
}
