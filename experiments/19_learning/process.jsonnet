// The same from its states, valued by their continuations.
local pairs = (import '../../configs/lib/data.libsonnet').pairs;

(import 'outcome.jsonnet') + {
  name: 'process',
  pairs: pairs.states(['runs/19_real_model']) { pairs_per_problem: 4, num_test_pairs: 8 },
}
