// Values of sft.jsonnet's policy, which stands still, on problems that it neither always nor never solves: critics, probes and
// a continuation of every state learn from, or have, 400 rollouts an iteration; two tokens a step.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local poise = (import '../../configs/lib/recipes.libsonnet').poise;
local sft = import '../19_learning/sft.jsonnet';

algorithm.ppo + hardware.gpu + hardware.on_cpu + hardware.critic_as_policy + logging + {
  // The paper's but for its rate: a random head, a squared error with a clip.
  local critic = self.critic,
  local probe = poise.values.predictors.probe { of: 'drawn', crossed: false },
  name: 'real_critics',
  seed: 1,
  num_iterations: 4,
  model: model.pretrained('runs/19_real_model_models/sft_svamp/final/policy') {
    dtype: 'float32',
    gradient_checkpointing: false,
  },
  task: sft.task {
    train_path: 'runs/19_real_model_models/svamp_undecided.jsonl',
    num_test_problems: 2,
  },
  engine+: { dtype: 'float32', max_model_len: 256, max_num_seqs: 256 },
  sampling+: { temperature: 0.6, max_tokens: 48 },
  rollouts: { num_prompts: 50, num_samples: 8 },
  credit+: { segmenter: { kind: 'tokens', num_tokens: 2 } },
  reference+: { kl_coef: 0 },
  optimization+: { num_epochs: 1, micro_batch_size: 32, logprobs_micro_batch_size: 32, zero_stage: 0 },
  critic+: { learning_rate: 1e-4, warmup_iterations: 4 },
  values: {
    credit: null,
    predictors: {
      drawn: { kind: 'monte_carlo', num_continuations: 1, identical_prefixes: 'share', states: null },
      shrunk: { kind: 'shrunk', of: 'drawn', toward: 'siblings' },
      smoothed: { kind: 'smoothed', of: 'drawn', change: 0.2, direction: 'causal' },
      group: { kind: 'group_mean' },
      strongest: critic { warmup_iterations: 0, head_init: 'zero', loss: { kind: 'cross_entropy', low: 0, high: 1 } },
      uncertainty: probe { features: 'uncertainty' },
      probe: probe,
      asked: critic + algorithm.yes_no { warmup_iterations: 0, question: '\nCorrect? Answer Yes or No:' },
    },
  },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 4, keep: 1 },
  logging+: { wandb_project: null },
}
