// Step credit without continuations, where few of 16 steps decide.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.vine_martingale + setting.credit_short + { name: 'martingale' }
