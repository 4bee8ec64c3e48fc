// credit_short_ppo with two critics on disjoint halves of every problem's rollouts.
local recipes = import '../lib/recipes.libsonnet';

(import '../credit_short_ppo.jsonnet') + recipes.two_critics + { name: 'ensemble' }
