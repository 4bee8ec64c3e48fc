// Algorithms: credit, reference, update. Values of the VinePPO paper (arXiv:2410.01679) and its
// code unless a comment says otherwise.
// What all algorithms share: sampling, the reference, the clipped update. Here stands what differs from
// the schema's defaults (`--dry-run` prints every key).
local common = {
  local config = self,
  // The paper's nucleus of 0.9 cuts the support of the policy that is sampled but not of the one
  // that is trained; here the two are the same.
  sampling: { temperature: 0.6 },
  credit: { segmenter: { kind: 'lines' } },
  optimization: {
    // A thousand times what float32 rounds to; four times the largest gap of sound bfloat16 runs.
    max_logprob_gap: if std.get(config.model, 'dtype') == 'float32' then 0.1 else 3,
  },
};

// The critic's keys that are the policy's unless a leaf changes either.
local as_policy(policy, keys) = { [key]: policy[key] for key in keys if std.objectHas(policy, key) };

{
  vineppo: common {
    credit+: { kind: 'vine', num_continuations: 9 },
  },

  // VinePPO from a tenth of the states, those before which most may have been decided, without a bias
  // (docs/continuations.md#fewer-states).
  vine_cuts: self.vineppo {
    credit+: {
      num_continuations: 3,
      states: { kind: 'expected', by: 'probability', probability: 0.1, floor: 0.01 },
      own_return: true,
    },
  },

  // For long texts, over an algorithm: at most 16 states a response, where the policy was least sure.
  reasoning_steps:: {
    credit+: {
      segmenter: { kind: 'merged', max_steps: 16, segmenter: { kind: 'math', max_formula_chars: 100 } },
    },
  },

  // SPO-chain (Segment Policy Optimization, arXiv:2505.23564, and its code): VinePPO between cutpoints,
  // and only they train.
  spo_chain: self.vineppo {
    local max_prob = 0.9,
    credit+: { segmenter: { kind: 'cutpoints', max_prob: max_prob, num_cutpoints: 5 } },
    optimization+: { max_token_prob: max_prob },
  },

  // SPO-tree, of the same paper: 6 x 6 x 6 leaves of 30 tokens a level are its GSM8K's. All segments
  // train in the iteration that sampled them, where its code takes 32 of a problem and keeps the rest
  // for up to 8 iterations.
  spo_tree: common {
    local credit = self.credit,
    rollouts: { num_prompts: 16, num_samples: std.foldl(function(n, b) n * b, credit.branching, 1) },
    credit: {
      kind: 'tree',
      segmenter: { kind: 'tokens', num_tokens: credit.tokens_per_level },
      branching: [6, 6, 6],
      tokens_per_level: 30,
    },
    optimization+: { num_epochs: 1, batch_size: 128, max_token_prob: 0.9 },
  },

  // Step credit for little: outcomes joined with one continuation of a tenth of the states, those before which
  // most may have been decided, without a bias (docs/methods.md).
  vine_efficient: common {
    credit+: {
      kind: 'joined',
      num_continuations: 1,
      states: { kind: 'expected', by: 'probability', probability: 0.1, floor: 0.01 },
    },
  },

  // Step credit without continuations: the reward less a martingale, made of the ratios of the policy
  // to a small model of what it chooses when it succeeds.
  vine_martingale: self.martingale('posterior'),

  // The same with the true answer in view.
  vine_privileged: self.martingale('privileged'),

  // And joined with the continuations of `vine_efficient`.
  vine_efficient_privileged: self.vine_privileged { credit: $.vine_efficient.credit },

  martingale(kind):: common {
    credit+: { kind: 'martingale' },
    values: { credit: kind, predictors: { [kind]: { kind: kind } } },
  },

  // The paper's PPO: a critic from the starting policy, trained as a leaf trains the policy (--set
  // changes either alone); GAE with λ = 1.
  ppo: common {
    credit+: { kind: 'gae' },
    local policy = self.optimization,
    critic: as_policy(policy, ['schedule', 'num_epochs', 'batch_size']) {
      kind: 'separate',
      learning_rate: std.get(policy, 'learning_rate', 1e-6),
      loss: { kind: 'squared_error' },
    },
  },

  // A language model's yes/no value beside a run's own (recipes/yes_no.py), of a critic's table:
  // `values+: { predictors+: { judge: ppo.critic + algorithm.yes_no } }`.
  yes_no: {
    kind: 'yes_no',
    loss: { kind: 'cross_entropy', low: 0, high: 1 },
    head_init: 'zero',
  },

  // What the policy itself writes of a state (recipes/generated.py), beside a run's own values, over
  // nothing: `values+: { predictors+: { judge: algorithm.generative } }`. With `+ algorithm.learned`
  // it learns to.
  generative: { kind: 'generative' },
  learned: { training: {} },

  // What has helped critics since (VC-PPO, arXiv:2503.01491; VAPO, arXiv:2504.05118): warm-up,
  // λ = 1 for the critic and a length-adaptive one for the policy, clip-higher, a loss by tokens.
  modern_ppo: self.ppo {
    credit+: { policy_lambda: null, length_adaptive_alpha: 0.05 },
    critic+: { learning_rate: 2e-6, warmup_iterations: 50, head_init: 'zero', loss+: { clip: null } },
    optimization+: { clip_high: 0.28 },
  },

  // Group baselines, each as its paper has it but for what `common` gives to all: the sampling, the
  // clipped update, and kl_coef (1e-4, VinePPO's; GRPO's paper has 0.04).
  grpo: common {
    credit+: { kind: 'grpo' },
    reference+: { kl_aggregation: 'sequence_mean' },
    optimization+: { loss_aggregation: 'sequence_mean', whiten_advantages: false },
  },
  // GiGPO of several turns (arXiv:2505.10978, and its code's γ and weight), without the deviation.
  gigpo: common {
    credit: {
      kind: 'gigpo',
      segmenter: { kind: 'turns' },
      gamma: 0.95,
      step_weight: 1,
      baseline: 'others',
      normalize_std: false,
    },
    optimization+: { whiten_advantages: false },
  },
  rloo: common {
    credit+: { kind: 'rloo' },
    reference+: { kl_in: 'reward', kl_estimator: 'k1', kl_clamp: null },
    optimization+: { loss_aggregation: 'sequence_sum', whiten_advantages: false },
  },
  reinforce_plus_plus: common {
    credit+: { kind: 'reinforce_plus_plus', gamma: 1 },
    reference+: { kl_in: 'reward', kl_estimator: 'k1', kl_clamp: null },
  },
  reinforce_plus_plus_baseline: common {
    credit+: { kind: 'reinforce_plus_plus_baseline' },
    reference+: { kl_estimator: 'k2', kl_clamp: null },
  },
  remax: common {
    credit+: { kind: 'remax' },
    reference+: { kl_in: 'reward', kl_estimator: 'k1', kl_clamp: null },
    optimization+: { whiten_advantages: false },
  },

  sft: {
    optimization: { max_tokens: error 'optimization.max_tokens' },
  },

  // Bradley-Terry on preference pairs; one epoch, as more overfits (arXiv:2307.09288, section 3.2.2).
  reward_model: {
    optimization: {
      schedule: 'linear',
      num_epochs: 1,
      max_tokens: error 'optimization.max_tokens',
    },
  },

  // RestEM (arXiv:2312.06585) as the VinePPO paper runs it, over `sft`: 32 samples a problem, of
  // which ten right ones train; every iteration starts from the starting policy.
  restem: self.sft {
    self_training: {
      kind: 'self_training',
      num_iterations: 3,
      num_prompts: error 'self_training.num_prompts',
      num_samples: 32,
      most_right: 10,
      num_validation: error 'self_training.num_validation',
      restart: true,
      loss: { kind: 'likelihood' },
    },
  },
  // DPO-positive (arXiv:2402.13228) on its right and wrong answers, with the λ of its authors.
  dpo_positive: self.restem {
    self_training+: { loss: { kind: 'dpo_positive', beta: 0.3, penalty: 50, segmenter: null } },
  },
  // The same on the steps in which two answers part.
  dpo_steps: self.dpo_positive { self_training+: { loss+: { segmenter: { kind: 'lines' } } } },
}
