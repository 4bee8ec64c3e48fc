// A reward model from 1,024 of the policy's rollouts, right against wrong.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local pairs = (import '../../configs/lib/data.libsonnet').pairs;

algorithm.reward_model + hardware.cpu + hardware.without_engine + logging + {
  name: 'outcome',
  seed: 1,
  model: model.credit_short,
  pairs: pairs.rollouts(['runs/18_critics_rollouts']) { num_test_pairs: 128 },
  optimization+: { learning_rate: 3e-4, num_epochs: 4, max_tokens: 128 },
  evaluation: { every: 5 },
  checkpoint: { every: 0, keep: 1 },
  logging+: { wandb_project: null },
}
