// recipes/reinforce_plus_plus where few of 16 steps decide.
local demo = import '../../configs/recipes/reinforce_plus_plus.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

demo + setting.credit_short + { name: 'credit_short_reinforce' }
