// PPO's critic, VinePPO's advantage: differences of the critic's values at step boundaries. With
// credit_short_vineppo, credit_short_ppo and vineppo_gae.jsonnet the 2 x 2 of values and advantage.
local vineppo = import '../../configs/credit_short_vineppo.jsonnet';
local ppo = import '../../configs/credit_short_ppo.jsonnet';

vineppo + {
  name: 'credit_short_ppo_vine',
  credit+: { num_continuations: 0 },
  critic: ppo.critic,
  values: { credit: 'critic', predictors: {} },
}
