// The true answer in view, and what it leaves unexplained joined with a continuation of a tenth of the states.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

algorithm.vine_efficient_privileged + setting.credit_sheet + { name: 'credit_sheet_joined_privileged' }
