// demo_vineppo on long arithmetic chains, where step credit matters.
local demo = import '../../configs/demo_vineppo.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.long + { name: 'long_vineppo' }
