// RLOO whose baseline is drawn towards the mean reward of other problems.
local recipes = import '../lib/recipes.libsonnet';

(import '../credit_short_ppo.jsonnet') + recipes.shrinkage + { name: 'shrunk_mean' }
