(import 'noise.libsonnet')(
  'sheet',
  import '../../configs/credit_sheet_vine_privileged.jsonnet',
  import '../../configs/credit_sheet_vine_efficient.jsonnet',
  import '../../configs/credit_sheet_oracle.jsonnet',
  import '../../configs/credit_sheet_ppo.jsonnet',
)
