(import 'noise.libsonnet')(
  'short',
  import '../../configs/credit_short_vine_privileged.jsonnet',
  import '../../configs/credit_short_vine_efficient.jsonnet',
  import '../../configs/credit_short_oracle.jsonnet',
  import '../../configs/credit_short_ppo.jsonnet',
)
