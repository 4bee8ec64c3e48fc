// Thirty iterations of VinePPO, PPO and GRPO from the policy of sft.jsonnet; all but the estimator alike.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local sft = import 'sft.jsonnet';

local methods = {
  vineppo: algorithm.vineppo { credit+: { num_continuations: 3 } },
  grpo: algorithm.grpo,
  ppo: algorithm.ppo + hardware.critic_as_policy { critic+: { head_init: 'zero' } },
};
local config(method) = methods[method] + hardware.gpu + hardware.on_cpu + logging + {
  num_iterations: 30,
  model: model.pretrained('runs/19_real_model_sft/final/policy') { gradient_checkpointing: false },
  task: sft.task { num_test_problems: 256 },
  engine+: { max_model_len: 512, max_num_seqs: 192, cpu_kv_cache_gib: 2 },
  sampling+: { max_tokens: sft.sampling.max_tokens },
  rollouts: { num_prompts: 4, num_samples: 8 },
  optimization+: { learning_rate: 1e-5, batch_size: 16, micro_batch_size: 8, logprobs_micro_batch_size: 16 },
  evaluation+: { every: 10, num_samples: 2 },
  checkpoint: { every: 10, keep: 1 },
  logging+: { wandb_project: null },
};
{
  runs: [
    {
      name: 'gsm8k_short_' + method,
      seed: seed,
      config: '../../configs/gsm8k_smollm2_135m_vineppo.jsonnet',
      set: { [key]: config(method)[key] for key in std.objectFields(config(method)) },
    }
    for seed in std.range(1, 3)
    for method in std.objectFields(methods)
  ],
  evaluations: [],
}
