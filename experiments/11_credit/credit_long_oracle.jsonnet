// recipes/oracle on long chains (gates.sh).
local oracle = import '../../configs/recipes/oracle.jsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

oracle + setting.credit_long + { name: 'credit_long_oracle' }
