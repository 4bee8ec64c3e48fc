// The demo's baseline: PPO with a critic of its own, as in the VinePPO paper.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local setting = import 'lib/setting.libsonnet';

algorithm.ppo + setting.short + hardware.critic_as_policy + {
  name: 'demo_ppo',
  optimization+: { learning_rate: 1e-4 },
  critic+: { learning_rate: 1e-3 },
}
