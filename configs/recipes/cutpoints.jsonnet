// SPO-chain where few of 16 steps decide.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.spo_chain + setting.credit_short + {
  name: 'cutpoints',
  credit+: { num_continuations: 5 },  // as credit_short_vineppo
}
