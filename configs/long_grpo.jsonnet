// demo_grpo on long arithmetic chains, where step credit matters.
local demo = import 'demo_grpo.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.long + { name: 'long_grpo' }
