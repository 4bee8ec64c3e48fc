// Finishes the policy that ships as embedded:credit_sheet, from the end of sft_credit_sheet.
local base = import 'sft_credit_sheet.jsonnet';

base + {
  name: 'sft_credit_sheet_more',
  model+: { path: 'runs/sft_credit_sheet/final/policy', architecture: null },
  task+: { num_train_problems: 57600 },
  optimization+: { learning_rate: 2e-3 },
}
