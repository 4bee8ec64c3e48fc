// Step credit by three continuations of two states a rollout, on average.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

algorithm.vine_cuts + setting.credit_sheet + {
  name: 'credit_sheet_vine_cuts',
  credit+: { states+: { probability: 2 / 23 } },
}
