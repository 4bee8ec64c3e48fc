// A policy that stands still under joined cuts: a posterior learns their continuations' returns too, one rewards alone.
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
  optimization+: { learning_rate: 1e-12 },
} + beside.run
