// The demo with the paper's K, on fewer problems than it draws from; nothing but iterations.
local demo = import '../../configs/demo_vineppo.jsonnet';

demo + {
  name: 'benchmark_demo',
  task+: { num_train_problems: 512, num_test_problems: 8 },
  credit+: { num_continuations: 9 },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint+: { every: 0 },
  logging+: { wandb_project: null },
}
