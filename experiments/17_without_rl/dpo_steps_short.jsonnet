// DPO-positive on the steps in which two answers part; branches leave tokens for more problems.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local dpo = import 'dpo_short.jsonnet';

dpo + {
  name: 'credit_short_dpo_steps',
  self_training+: { num_prompts: 52, loss: algorithm.dpo_steps.self_training.loss },
}
