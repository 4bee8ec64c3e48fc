// PPO's critic, corrected by the continuations of a few random states so that it has no bias.
(import '../credit_short_ppo.jsonnet') + {
  name: 'doubly_robust',
  credit: {
    kind: 'doubly_robust',
    segmenter: { kind: 'lines' },
    num_continuations: 1,
    probability: 0.1,
  },
}
