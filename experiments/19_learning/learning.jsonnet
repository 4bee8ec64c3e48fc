// VinePPO, GRPO and PPO from sft.jsonnet's policy, at one rate for all: iterations of 32 rollouts on a CPU core.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local sft = import 'sft.jsonnet';

local on(algorithm) = algorithm + hardware.gpu + hardware.on_cpu + logging + {
  num_iterations: 30,
  model: model.pretrained('runs/19_real_model_models/sft_svamp/final/policy') {
    dtype: 'float32',
    gradient_checkpointing: false,
  },
  task: sft.task,
  engine+: { dtype: 'float32', max_model_len: 256 },
  sampling+: { temperature: 0.6, max_tokens: 48 },
  rollouts: { num_prompts: 4, num_samples: 8 },
  reference+: { kl_coef: 0 },
  optimization+: { learning_rate: 1e-5, num_epochs: 1, batch_size: 16, micro_batch_size: 16, logprobs_micro_batch_size: 16, zero_stage: 0 },
  evaluation+: { every: 30, num_samples: 2 },
  checkpoint: { every: 10, keep: 1 },
  logging+: { wandb_project: null },
};
local methods = {
  vineppo: on(algorithm.vineppo { credit+: { num_continuations: 3 } }),
  grpo: on(algorithm.grpo),
  ppo: on(algorithm.ppo + hardware.critic_as_policy + { critic+: { head_init: 'zero' } }),
};
{
  runs: [
    {
      name: 'real_' + name,
      seed: seed,
      config: '../../configs/gsm8k_smollm2_135m_vineppo.jsonnet',
      set: { [key]: methods[name][key] for key in std.objectFields(methods[name]) },
    }
    for seed in [1, 2, 3]
    for name in std.objectFields(methods)
  ],
  evaluations: [],
}
