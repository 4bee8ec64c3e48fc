// credit_short_ppo with two critics on disjoint halves of every problem's rollouts.
local algorithm = import 'lib/algorithm.libsonnet';

(import 'credit_short_ppo.jsonnet') + algorithm.two_critics + { name: 'credit_short_two_critics' }
