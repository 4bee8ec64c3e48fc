// A reward model from the run's own rollouts, right against wrong.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local pairs = (import '../../configs/lib/data.libsonnet').pairs;

algorithm.reward_model + hardware.gpu + hardware.on_cpu + hardware.without_engine + logging + {
  name: 'outcome',
  seed: 0,
  model: model.pretrained('runs/19_real_model_models/qwen') { gradient_checkpointing: false },
  pairs: pairs.rollouts(['runs/19_real_model']) { pairs_per_problem: 4, num_test_pairs: 8 },
  optimization+: { batch_size: 8, max_tokens: 512 },
  evaluation: { every: 4 },
  checkpoint: { every: 0, keep: 1 },
  logging+: { wandb_project: null },
}
