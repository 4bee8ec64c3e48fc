// Training by joined cuts on a posterior that learns their continuations' returns too, with one of rewards alone beside it.
local recipes = import '../../configs/lib/recipes.libsonnet';
local joined = import '../../configs/recipes/joined.jsonnet';
local beside = import 'beside.libsonnet';
local posterior = { kind: 'posterior' };

joined + {
  name: 'credit_short_taught',
  values: {
    credit: 'taught',
    predictors: { posterior: posterior, taught: posterior { learns_from: 'monte_carlo' } }
                + recipes.shrinkage.values.predictors,
  },
} + beside.run
