// Values of gsm8k_sft.jsonnet's policy, which stands still, a line a step, on problems that it neither always nor never
// solves: a critic and probes learn from 506 rollouts an iteration, of 46 new problems.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local poise = (import '../../configs/lib/recipes.libsonnet').poise;
local sft = import 'gsm8k_sft.jsonnet';
local models = 'runs/19_real_model_models/';

algorithm.ppo + hardware.gpu + hardware.on_cpu + hardware.without_vllm + hardware.critic_as_policy + logging + {
  local probe = poise.values.predictors.probe { of: 'drawn', crossed: false },
  name: 'gsm8k_values',
  seed: 1,
  num_iterations: 5,
  // Adapters, that no optimizer holds weights which stand still.
  model: model.pretrained(models + 'sft_gsm8k/final/policy') + model.adapters + { gradient_checkpointing: false },
  task: sft.task { train_path: models + 'gsm8k_undecided.jsonl', num_test_problems: 2 },
  engine+: { max_model_len: 384, max_num_seqs: 256 },
  sampling+: { temperature: 0.6, max_tokens: 128 },
  rollouts: { num_prompts: 46, num_samples: 11 },
  credit+: { segmenter: { kind: 'lines' } },
  reference+: { kl_coef: 0 },
  optimization+: {
    num_epochs: 1,
    shuffle: 'groups',
    batch_size: 66,
    micro_batch_size: 22,
    logprobs_micro_batch_size: 44,
  },
  critic+: {
    learning_rate: 2e-5,
    warmup_iterations: 5,
    head_init: 'zero',
    loss: { kind: 'cross_entropy', low: 0, high: 1 },
  },
  values: {
    credit: null,
    predictors: {
      drawn: { kind: 'monte_carlo', num_continuations: 1, identical_prefixes: 'share', states: null },
      shrunk: { kind: 'shrunk', of: 'drawn', toward: 'siblings' },
      smoothed: { kind: 'smoothed', of: 'drawn', change: 0.2, direction: 'causal' },
      group: { kind: 'group_mean' },
      uncertainty: probe { features: 'uncertainty' },
      probe: probe,
    },
  },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 2, keep: 3 },
  logging+: { wandb_project: null },
}
