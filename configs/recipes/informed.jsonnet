// credit_short_ppo with a critic that sees the true answer.
local view = import '../lib/view.libsonnet';

(import '../credit_short_ppo.jsonnet') + { name: 'informed', critic+: view.answer_prefix }
