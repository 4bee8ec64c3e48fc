// demo_reinforce where seven of 24 steps decide, each a little.
local demo = import '../../configs/demo_reinforce.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.credit_sheet + { name: 'credit_sheet_reinforce' }
