// Makes the policy that ships as embedded:credit_long.
local short = import 'sft_credit_short.jsonnet';
local task = import '../../configs/lib/task.libsonnet';

short + {
  name: 'sft_credit_long',
  task: task.credit_long { num_train_problems: 96000 },
  engine+: { max_model_len: 192 },
  sampling+: { max_tokens: 160 },
  optimization+: { num_epochs: 1, max_tokens: 192 },
}
