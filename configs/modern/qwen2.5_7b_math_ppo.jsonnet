// PPO with what has helped critics since: Qwen2.5-7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local hardware = import '../lib/hardware.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.modern_ppo + setting.qwen('Qwen2.5-7B') + hardware.critic_as_policy + { name: 'qwen2.5_7b_math_ppo' }
