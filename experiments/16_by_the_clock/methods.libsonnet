// The methods that are swept and compared, over configs/credit_{sheet,short}_*.jsonnet.
local plain(config) = { config: config, set: {} };
{
  vine_privileged: plain('vine_privileged'),
  rloo: plain('rloo'),
  grpo: plain('grpo'),
  reinforce: plain('reinforce'),
  ppo: plain('ppo'),
  ppo_view: plain('ppo_view'),
  oracle: plain('oracle'),
}
