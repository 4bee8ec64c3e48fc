// credit_short_ppo with a critic that sees the true answer.
local ppo = import 'credit_short_ppo.jsonnet';
local view = import 'lib/view.libsonnet';

ppo + { name: 'credit_short_ppo_view', critic+: { view: view.answer_prefix } }
