// Finishes the policy that ships as embedded:credit_sheet, from the end of sft_credit_sheet.
local base = import 'sft_credit_sheet.jsonnet';

base + {
  name: 'sft_credit_sheet_more',
  model+: { path: 'runs/sft_credit_sheet/final/policy' },
  task+: { num_train_problems: 38400 },
  optimization+: { learning_rate: 1.5e-3 },
}
