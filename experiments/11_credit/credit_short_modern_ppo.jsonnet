// demo_modern_ppo where few of 16 steps decide.
local demo = import '../02_baselines/demo_modern_ppo.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.credit_short + { name: 'credit_short_modern_ppo', critic+: { head_init: 'zero' } }
