// What learns beside the values that a run trains by.
local recipes = import '../../configs/lib/recipes.libsonnet';
{
  predictors: {
    exact: { kind: 'oracle', of: 'policy' },
    drawn: { kind: 'monte_carlo', num_continuations: 1, identical_prefixes: 'share', states: null },
    probe: recipes.poise.values.predictors.probe { of: 'drawn', features: 'uncertainty', crossed: false },
  } + recipes.shrinkage.values.predictors,
  run: {
    num_iterations: 30,
    evaluation+: { every: 0 },
    checkpoint: { every: 15, keep: 4 },
    logging+: { wandb_project: null },
  },
}
