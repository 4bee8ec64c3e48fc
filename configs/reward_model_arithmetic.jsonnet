// A reward model from the rollouts of the demo, right against wrong: after
// `vineppo train configs/demo_vineppo.jsonnet`.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local logging = import 'lib/logging.libsonnet';
local model = import 'lib/model.libsonnet';
local pairs = (import 'lib/data.libsonnet').pairs;

algorithm.reward_model + hardware.cpu + hardware.without_engine + logging + {
  name: 'reward_model_arithmetic',
  seed: 0,
  model: model.arithmetic_short,
  pairs: pairs.rollouts(['runs/demo_vineppo']) { num_test_pairs: 256 },
  optimization+: { learning_rate: 1e-3, num_epochs: 4, max_tokens: 128 },
  evaluation: { every: 20 },
  checkpoint: { every: 40, keep: 2 },
}
