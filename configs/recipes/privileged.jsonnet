// Step credit without continuations, with the true answer in view, where few of 16 steps decide.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.vine_privileged + setting.credit_short + { name: 'privileged' }
