// Step credit without continuations, where seven of 24 steps decide, each a little.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

algorithm.vine_martingale + setting.credit_sheet + { name: 'credit_sheet_martingale' }
