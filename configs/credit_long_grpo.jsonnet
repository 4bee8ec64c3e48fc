// demo_grpo where few of 24 steps decide.
local demo = import 'demo_grpo.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.credit_long + { name: 'credit_long_grpo' }
