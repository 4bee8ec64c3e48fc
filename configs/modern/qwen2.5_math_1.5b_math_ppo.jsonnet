// PPO with what has helped critics since: Qwen2.5-Math-1.5B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local hardware = import '../lib/hardware.libsonnet';
local modern = import '../lib/modern.libsonnet';

algorithm.modern_ppo + modern.qwen('Qwen2.5-Math-1.5B') + hardware.critic_as_policy + { name: 'qwen2.5_math_1.5b_math_ppo' }
