// recipes/reinforce_plus_plus where seven of 24 steps decide, each a little.
local demo = import '../../configs/recipes/reinforce_plus_plus.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.credit_sheet + { name: 'credit_sheet_reinforce' }
