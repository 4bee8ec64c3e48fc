// Values of one continuation a state, and what is made of them: predictors beside those that a run trains by.
local poise = (import '../../configs/lib/recipes.libsonnet').poise;
{
  drawn: { kind: 'monte_carlo', num_continuations: 1, identical_prefixes: 'share', states: null },
  pooled: { kind: 'pooled', of: 'drawn' },
  shrunk: { kind: 'shrunk', of: 'drawn', toward: 'siblings' },
  smoothed: { kind: 'smoothed', of: 'drawn', change: 0.2, direction: 'causal' },
  probe: poise.values.predictors.probe { of: 'drawn', features: 'uncertainty', crossed: false },
}
