// demo_modern_ppo on long arithmetic chains, where step credit matters.
local demo = import 'demo_modern_ppo.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.long + { name: 'long_modern_ppo' }
