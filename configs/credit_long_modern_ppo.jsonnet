// demo_modern_ppo where few of 24 steps decide.
local demo = import 'demo_modern_ppo.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.credit_long + { name: 'credit_long_modern_ppo', critic+: { head_init: 'zero' } }
