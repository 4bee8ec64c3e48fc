// demo_ppo where few of 16 steps decide.
local demo = import 'demo_ppo.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.credit_short + { name: 'credit_short_ppo', critic+: { head_init: 'zero' } }
