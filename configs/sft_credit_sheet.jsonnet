// Makes the policy that ships as embedded:credit_sheet.
local short = import 'sft_credit_short.jsonnet';
local task = import 'lib/task.libsonnet';

short + {
  name: 'sft_credit_sheet',
  task: task.credit_sheet { num_train_problems: 80000 },
  engine+: { max_model_len: 192 },
  sampling+: { max_tokens: 144 },
  optimization+: { num_epochs: 1, max_tokens: 192 },
}
