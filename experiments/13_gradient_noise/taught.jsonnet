// Training by joined cuts on a posterior that learns the continuations' returns too, with one of rewards alone beside it.
local joined = import '../../configs/recipes/joined.jsonnet';
local posterior = { kind: 'posterior' };
local recipes = import '../../configs/lib/recipes.libsonnet';

joined + {
  name: 'credit_short_taught',
  values: {
    credit: 'taught',
    predictors: { posterior: posterior, taught: posterior { learns_from: 'monte_carlo' } }
                + recipes.shrinkage.values.predictors,
  },
  evaluation+: { every: 0 },
  checkpoint: { every: 15, keep: 4 },
  logging+: { wandb_project: null },
}
