// SPO-tree where few of 16 steps decide: 4 leaves of a problem, as many as the others' rollouts,
// of about 71 tokens.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.spo_tree + setting.credit_short + {
  name: 'tree',
  credit+: { branching: [2, 2], tokens_per_level: 36 },
  optimization+: { num_epochs: 2 },  // as the others here
}
