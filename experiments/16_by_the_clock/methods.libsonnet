// The methods that are swept and compared on credit_sheet, over configs/credit_sheet_*.jsonnet; on
// credit_short (at the rates of ../11_credit/sweep.csv) those of `cheap`.
local plain(config) = { config: config, set: {} };
local cheap = {
  vine_privileged: plain('vine_privileged'),
  rloo: plain('rloo'),
  grpo: plain('grpo'),
  reinforce: plain('reinforce'),
  ppo: plain('ppo'),
  ppo_view: plain('ppo_view'),
};
{
  cheap: cheap,
  all: cheap {
    oracle: plain('oracle'),
    vine_efficient: plain('vine_efficient'),
    vineppo_k3: { config: 'vineppo', set: { 'credit.num_continuations': 3 } },
  },
}
