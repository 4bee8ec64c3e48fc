// PPO with what has helped critics since: Qwen3-1.7B on MATH.
local algorithm = import '../lib/algorithm.libsonnet';
local hardware = import '../lib/hardware.libsonnet';
local setting = import '../lib/setting.libsonnet';

algorithm.modern_ppo + setting.qwen('Qwen3-1.7B') + hardware.critic_as_policy + {
  name: 'qwen3_1.7b_math_ppo',
  engine+: { gpu_memory_utilization: 0.2 },  // the critic takes room
}
