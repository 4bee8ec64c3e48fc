// VinePPO where sure steps join the next one: fewer states, and those at which something is decided.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.vineppo + setting.credit_short + {
  name: 'merged',
  credit+: { segmenter: { kind: 'merged', max_prob: 0.9, segmenter: { kind: 'lines' } } },
}
