// Learned values of a policy that stands still: PPO's critic and, beside it, the posterior's ratios,
// of 512 rollouts an iteration.
local ppo = import '../../configs/credit_short_ppo.jsonnet';
local efficient = import '../../configs/recipes/martingale.jsonnet';

ppo + {
  name: 'credit_short_critic',
  num_iterations: 12,
  rollouts: { num_prompts: 64, num_samples: 8 },
  critic+: { warmup_iterations: 12 },
  values+: {
    predictors: { posterior: efficient.values.predictors.posterior { num_steps: 64 } },
  },
  evaluation+: { every: 0 },
  checkpoint: { every: 2, keep: 6 },
  logging+: { wandb_project: null },
}
