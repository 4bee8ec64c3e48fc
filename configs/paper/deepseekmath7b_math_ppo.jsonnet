// PPO with a critic of its own: DeepSeekMath-7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local hardware = import '../lib/hardware.libsonnet';
local paper = import '../lib/paper.libsonnet';

algorithm.ppo + paper.setting('deepseekmath7b', 'math') + hardware.critic_as_policy + {
  name: 'deepseekmath7b_math_ppo',
}
