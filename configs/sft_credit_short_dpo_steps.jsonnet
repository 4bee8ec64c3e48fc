// DPO-positive on the steps in which two answers part; branches leave tokens for more problems.
local algorithm = import 'lib/algorithm.libsonnet';
local dpo = import 'sft_credit_short_dpo.jsonnet';

dpo + {
  name: 'sft_credit_short_dpo_steps',
  self_training+: { num_prompts: 52, loss: algorithm.dpo_steps.self_training.loss },
}
