// PPO by steps whose values are learned from the policy's choices, in place of a critic's.
local algorithm = import '../lib/algorithm.libsonnet';

(import '../credit_short_ppo.jsonnet') + {
  name: 'posterior',
  critic: null,
  values: algorithm.vine_martingale.values,
}
