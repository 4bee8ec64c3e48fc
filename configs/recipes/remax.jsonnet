// ReMax on the demo's task: the reward of a greedy response as the baseline.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.remax + setting.short + { name: 'remax', optimization+: { learning_rate: 1e-4 } }
