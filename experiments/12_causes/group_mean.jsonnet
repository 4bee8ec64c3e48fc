// K = 0: VinePPO's update with the mean of the problem's other rollouts as the value of every state.
local oracle_gae = import 'oracle_gae.jsonnet';

oracle_gae + {
  name: 'credit_short_group_mean',
  values: { credit: 'group', predictors: { group: { kind: 'group_mean' } } },
}
