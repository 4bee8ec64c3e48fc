// The methods that are swept and compared, over configs/credit_{sheet,short}_*.jsonnet.
local recipes = import '../../configs/lib/recipes.libsonnet';
local plain(config, set={}) = { config: config, set: set };
local shrunk = (import 'credit_sheet_ppo.jsonnet') + recipes.shrinkage;
{
  vine_privileged: plain('vine_privileged'),
  joined: plain('joined'),
  joined_privileged: plain('joined_privileged'),
  joined_privileged_slower: plain('joined_privileged'),
  vine_efficient: plain('martingale'),
  rloo: plain('rloo'),
  rloo_shrunk: plain('rloo', { credit: shrunk.credit, values: shrunk.values }),
  grpo: plain('grpo'),
  reinforce: plain('reinforce'),
  ppo: plain('ppo'),
  ppo_view: plain('ppo_view'),
  oracle: plain('oracle'),
  vineppo_k3: plain('vineppo', { 'credit.num_continuations': 3 }),
  cuts: plain('vineppo', {
    'credit.num_continuations': 3,
    'credit.states': { kind: 'surprisal', cuts: 2 },
  }),
  expected: plain('vine_cuts'),
  // What of the lead is not step credit: RLOO's advantages in the martingale's own update (whitened, a
  // mean over tokens).
  control: plain('vine_privileged', {
    credit: { kind: 'rloo', segmenter: { kind: 'lines' } },
    values: { credit: null, predictors: {} },
  }),
}
