// VinePPO on sheets: eight separate operations in free wordings, of which six must be right.
local demo = import '../demo_vineppo.jsonnet';
local setting = import '../lib/setting.libsonnet';

demo + setting.credit_sheet + { name: 'worded' }
