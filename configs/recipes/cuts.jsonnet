// VinePPO from a tenth of the states, those before which most may have been decided.
local algorithm = import '../lib/algorithm.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.vine_cuts + setting.credit_short + { name: 'cuts' }
