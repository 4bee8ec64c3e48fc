// PPO with what has helped critics since: warm-up, decoupled and length-adaptive λ, clip-higher.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local setting = import 'lib/setting.libsonnet';

algorithm.modern_ppo + setting.short + hardware.critic_as_policy + {
  name: 'demo_modern_ppo',
  optimization+: { learning_rate: 3e-5 },
  critic+: { learning_rate: 3e-4, warmup_iterations: 3 },
}
