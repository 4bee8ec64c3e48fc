// Outcomes joined with a continuation of a tenth of the states, where seven of 24 steps decide, each a little.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

algorithm.vine_efficient + setting.credit_sheet + { name: 'credit_sheet_joined' }
