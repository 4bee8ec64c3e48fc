// credit_sheet_ppo with a critic that sees the true answer.
local ppo = import 'credit_sheet_ppo.jsonnet';
local view = import '../../configs/lib/view.libsonnet';

ppo + { name: 'credit_sheet_ppo_view', critic+: view.answer_prefix }
