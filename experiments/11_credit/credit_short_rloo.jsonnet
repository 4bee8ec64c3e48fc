// demo_rloo where few of 16 steps decide.
local demo = import '../../configs/demo_rloo.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.credit_short + { name: 'credit_short_rloo' }
