// demo_reinforce where seven of 24 steps decide, each a little.
local demo = import 'demo_reinforce.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.credit_sheet + { name: 'credit_sheet_reinforce' }
