// PPO with a critic of its own: RhoMath-1.1B on GSM8K.
local algorithm = import '../lib/algorithm.libsonnet';
local hardware = import '../lib/hardware.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.ppo + paper.setting('rho1b', 'gsm8k') + hardware.critic_as_policy + {
  name: 'rho1b_gsm8k_ppo',
}
