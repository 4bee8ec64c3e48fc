// GRPO on the demo, as much of it as both sides have; responses of a right answer's usual length.
local demo = import '../../configs/demo_grpo.jsonnet';

demo + {
  name: 'benchmark_trl_demo',
  task+: { num_train_problems: 512, num_test_problems: 8, grading+: { truncated_reward: null } },
  sampling+: { max_tokens: 40 },
  // Ours in minibatches of whole groups; TRL has its own shuffle.
  optimization+: { warmup_fraction: 0, shuffle: 'groups' },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint+: { every: 0 },
  logging+: { wandb_project: null },
}
