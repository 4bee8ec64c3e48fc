// demo_rloo on long arithmetic chains, where step credit matters.
local demo = import 'demo_rloo.jsonnet';
local setting = import 'lib/setting.libsonnet';

demo + setting.long + { name: 'long_rloo' }
