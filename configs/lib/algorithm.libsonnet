// Algorithms: credit, reference, update. Values of the VinePPO paper (arXiv:2410.01679) and its
// code unless a comment says otherwise.
local adam = {
  schedule: 'constant',
  warmup_fraction: 0.03,
  adam_beta1: 0.9,
  adam_beta2: 0.999,
  adam_eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 1,
};

{
  vineppo: {
    // The paper's nucleus of 0.9 cuts the support of the policy that is sampled but not of the one
    // that is trained; here the two are the same.
    sampling: { temperature: 0.6, top_p: 1, max_tokens: error 'sampling.max_tokens' },
    rollouts: { num_prompts: 64, num_samples: 8 },
    credit: {
      kind: 'vine',
      num_continuations: 9,
      segmenter: { kind: 'lines' },
      identical_prefixes: 'share',
    },
    critic: null,
    reference: { path: null, kl_coef: 1e-4, kl_estimator: 'k3', kl_in: 'loss', kl_clamp: 10 },
    optimization: adam {
      learning_rate: 1e-6,
      num_epochs: 2,
      batch_size: 64,
      clip_low: 0.2,
      clip_high: 0.2,
      max_mean_ratio: 10,
      whiten_advantages: true,
      old_logprobs: 'engine',
    },
  },

  sft: {
    optimization: adam {
      learning_rate: 1e-5,
      num_epochs: 2,
      batch_size: 64,
      max_tokens: error 'optimization.max_tokens',
    },
  },
}
