// The values that values.jsonnet has not: the same policy that stands still, and the same rollouts. run.sh trains the
// reward models first, by as many rewards as two of the iterations have.
local made_of_continuations = import '../13_gradient_noise/made_of_continuations.libsonnet';
local values = import 'values.jsonnet';
local view = (import '../../configs/lib/view.libsonnet').symbols;

local bounded = values.values.predictors.bounded;
local told(name) = bounded + view[name];
local reward_model(kind) = 'runs/18_critics_reward_models/%s_3e-4/final/reward_model' % kind;
local scored(kind) = { kind: 'reward_model', path: reward_model(kind), output: 'probability' };

values + {
  name: 'critics_further',
  values: {
    credit: null,
    predictors: {
      [if name == 'probe' then 'uncertainty' else name]: made_of_continuations[name]
      for name in std.objectFields(made_of_continuations)
    } + {
      boxed: told('boxed_answer'),
      spoiler: told('cot_spoiler'),
      accuracy: told('expected_accuracy'),
      outcome: scored('outcome'),
      process: scored('process'),
      from_outcome: bounded { path: reward_model('outcome') },
    },
  },
}
