// demo_grpo on long arithmetic chains, where step credit matters.
local demo = import '../../configs/demo_grpo.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.long + { name: 'long_grpo' }
