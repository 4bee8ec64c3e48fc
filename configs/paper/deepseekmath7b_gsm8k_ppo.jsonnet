// PPO with a critic of its own: DeepSeekMath-7B on GSM8K.
local algorithm = import '../lib/algorithm.libsonnet';
local hardware = import '../lib/hardware.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.ppo + paper.setting('deepseekmath7b', 'gsm8k') + hardware.critic_as_policy + {
  name: 'deepseekmath7b_gsm8k_ppo',
}
