// DPO-positive in the place of RestEM's likelihood.
local algorithm = import 'lib/algorithm.libsonnet';
local restem = import 'sft_credit_short_restem.jsonnet';

restem + {
  name: 'sft_credit_short_dpo',
  self_training+: { loss: algorithm.dpo_positive.self_training.loss },
  optimization+: { learning_rate: 5e-5 },  // experiments/17_without_rl
}
