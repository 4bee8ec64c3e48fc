// VinePPO's values, PPO's advantage: the return minus the value of K continuations (lambda = 1).
local vineppo = import '../../configs/credit_short_vineppo.jsonnet';
local ppo = import '../../configs/credit_short_ppo.jsonnet';

vineppo + {
  name: 'credit_short_vineppo_gae',
  credit: ppo.credit { level: 'step' },
  values: {
    credit: 'sampled',
    predictors: {
      sampled: {
        kind: 'monte_carlo',
        num_continuations: vineppo.credit.num_continuations,
        identical_prefixes: 'share',
        states: null,
      },
    },
  },
}
