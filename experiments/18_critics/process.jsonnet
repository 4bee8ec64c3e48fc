// The same from their states, valued by three continuations.
local pairs = (import '../../configs/lib/data.libsonnet').pairs;

(import 'outcome.jsonnet') + {
  name: 'process',
  pairs: pairs.states(['runs/18_critics_rollouts']) { num_test_pairs: 128 },
}
