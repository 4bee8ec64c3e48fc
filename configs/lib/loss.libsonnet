// Policy losses beside PPO's, and which rollouts they take: `algorithm.grpo + loss.gspo + …`
// (docs/methods.md has their equations). Each changes only what it is about.
{
  // arXiv:2507.18071: the clip of section 5.1, which is of the mean log-ratio of a whole response.
  gspo: {
    optimization+: {
      policy_loss: 'gspo',
      clip_low: 3e-4,
      clip_high: 4e-4,
      loss_aggregation: 'sequence_mean',
    },
  },

  // arXiv:2506.13585, which has no lower bound and does not say its upper one: a weight of at most 5
  // is TRL's for ScaleRL (arXiv:2510.13786).
  cispo: {
    optimization+: {
      policy_loss: 'cispo',
      clip_low: 1,
      clip_high: 4,
      loss_aggregation: 'token_mean',
    },
  },

  // arXiv:2503.14476 without its penalty for length; its code draws at most ten times.
  dapo: {
    reference+: { kl_coef: 0 },
    optimization+: {
      clip_high: 0.28,
      loss_aggregation: 'token_mean',
      mask_truncated: true,
      mask_equal_rewards: true,
      max_redraws: 9,
    },
  },

  // arXiv:2503.20783, over `algorithm.grpo`.
  dr_grpo: {
    credit+: { normalize_std: false },
    reference+: { kl_coef: 0 },
    optimization+: { loss_aggregation: 'fixed_length' },
  },

  // Neither a KL nor the weights and the pass of a policy that it would be to; `kl_coef` 0 alone
  // still measures and logs it.
  without_reference: { reference+: { kl_coef: 0, kl_estimator: null } },

  // Minibatches of whole groups, whose prompts can pass once.
  whole_groups: { optimization+: { shuffle: 'groups' } },

  // arXiv:2409.06957, its best-worst.
  pf_ppo: { optimization+: { resampling: 'best_worst' } },

  // What the engine samples and the trainer updates, by the weight of whole responses (Liu et al.
  // 2025, "When Speed Kills Stability").
  sequence_correction: self.correction({ kind: 'truncated', level: 'sequence', max_weight: 2 }),
  sequence_masking: self.correction({
    kind: 'masked',
    level: 'sequence',
    min_weight: 0,
    max_weight: 2,
  }),
  correction(importance):: {
    optimization+: { old_logprobs: 'trainer', importance_correction: importance },
  },
}
