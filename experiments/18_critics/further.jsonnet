// The values that values.jsonnet has not: the same policy that stands still, and the same rollouts. run.sh trains the
// reward models first, by as many rewards as two of the iterations have.
local poise = (import '../../configs/lib/recipes.libsonnet').poise;
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
      drawn: { kind: 'monte_carlo', num_continuations: 1, identical_prefixes: 'share', states: null },
      pooled: { kind: 'pooled', of: 'drawn' },
      shrunk: { kind: 'shrunk', of: 'drawn', toward: 'siblings' },
      smoothed: { kind: 'smoothed', of: 'drawn', change: 0.2, direction: 'causal' },
      uncertainty: poise.values.predictors.probe { of: 'drawn', features: 'uncertainty', crossed: false },
      boxed: told('boxed_answer'),
      spoiler: told('cot_spoiler'),
      accuracy: told('expected_accuracy'),
      outcome: scored('outcome'),
      process: scored('process'),
      from_outcome: bounded { path: reward_model('outcome') },
    },
  },
}
