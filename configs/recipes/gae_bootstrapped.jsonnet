// credit_short_ppo whose critic values the end of truncated responses; its head starts at 0.
local ppo = import '../credit_short_ppo.jsonnet';

ppo + {
  name: 'gae_bootstrapped',
  credit+: { kind: 'gae_bootstrapped' },
  critic+: { head_init: 'zero' },
  optimization+: { mask_truncated: false },
}
