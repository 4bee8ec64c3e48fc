// Outcomes joined with a continuation of a tenth of the states, where few of 16 steps decide.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.vine_efficient + setting.credit_short + { name: 'joined' }
