// demo_ppo on long arithmetic chains, where step credit matters.
local demo = import 'demo_ppo.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.long + { name: 'long_ppo' }
