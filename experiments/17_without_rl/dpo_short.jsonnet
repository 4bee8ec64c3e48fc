// DPO-positive in the place of RestEM's likelihood.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local restem = import '../../configs/recipes/self_training.jsonnet';

restem + {
  name: 'credit_short_dpo',
  self_training+: { loss: algorithm.dpo_positive.self_training.loss },
  optimization+: { learning_rate: 5e-5 },  // experiments/17_without_rl
}
