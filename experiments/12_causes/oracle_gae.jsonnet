// Exact values, PPO's advantage: the return minus the value, or GAE with λ below 1 over the steps.
local oracle = import '../../configs/recipes/oracle.jsonnet';
local ppo = import '../../configs/credit_short_ppo.jsonnet';

oracle + { name: 'credit_short_oracle_gae', credit: ppo.credit { level: 'step' } }
