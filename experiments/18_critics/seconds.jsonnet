// What each kind of values adds to an iteration of GRPO: alone beside it, four iterations of 128 rollouts, on a machine that
// does nothing else.
local further = (import 'further.jsonnet').values.predictors;
local first = (import 'values.jsonnet').values.predictors;
local drawn(k) = { drawn: further.drawn { num_continuations: k } };
local of(predictors, names) = { [name]: predictors[name] for name in names };

local kinds = { none: {}, outcome: of(further, ['outcome']) }
              + { mc_1: drawn(1), mc_3: drawn(3), mc_9: drawn(9) }
              + {
                [name]: of(first, [name])
                for name in ['bounded', 'bigger', 'ensemble', 'answer', 'siblings', 'judge', 'asked', 'probe', 'oracle']
              }
              // A quarter of the rollouts, a quarter of the steps.
              + { [name]: { [name]: first[name] { num_steps: 16 } } for name in ['posterior', 'privileged'] };
{
  runs: [
    {
      name: 'seconds_' + kind,
      seed: 1,
      config: '../11_credit/credit_short_grpo.jsonnet',
      set: {
        num_iterations: 4,
        'rollouts.num_prompts': 16,
        'rollouts.num_samples': 8,
        'values.predictors': kinds[kind],
        'evaluation.every': 0,
        'task.num_test_problems': 4,
        'checkpoint.every': 0,
        'logging.wandb_project': null,
      },
    }
    for kind in std.objectFields(kinds)
  ],
  evaluations: [],
}
