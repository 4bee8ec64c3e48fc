// The true answer in view, and a continuation of two states a rollout, joined to what the answer leaves unexplained.
local algorithm = import 'lib/algorithm.libsonnet';
local setting = import 'lib/setting.libsonnet';

algorithm.privileged_cuts + setting.credit_sheet + { name: 'credit_sheet_privileged_cuts' }
