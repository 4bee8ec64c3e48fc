// Step credit without continuations, with the true answer in view, where seven of 24 steps decide, each a little.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

algorithm.vine_privileged + setting.credit_sheet + { name: 'credit_sheet_vine_privileged' }
