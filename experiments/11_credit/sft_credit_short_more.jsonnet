// Finishes the policy that ships as embedded:credit_short, from the end of sft_credit_short.
local base = import 'sft_credit_short.jsonnet';

base + {
  name: 'sft_credit_short_more',
  model+: { path: 'runs/sft_credit_short/final/policy', architecture: null },
  task+: { num_train_problems: 44800 },
  optimization+: { learning_rate: 1e-3, num_epochs: 1 },
}
