// demo_ppo where seven of 24 steps decide, each a little.
local demo = import '../../configs/demo_ppo.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.credit_sheet + { name: 'credit_sheet_ppo', critic+: { head_init: 'zero' } }
