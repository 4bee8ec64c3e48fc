// PPO with what has helped critics since: warm-up, decoupled and length-adaptive λ, clip-higher.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local setting = import '../../configs/lib/setting.libsonnet';

algorithm.modern_ppo + setting.short + hardware.critic_as_policy + {
  name: 'demo_modern_ppo',
  credit+: { length_adaptive_alpha: 2 },  // the paper's 0.05 is for thousands of tokens
  optimization+: { learning_rate: 1e-4 },
  critic+: { learning_rate: 1e-3, warmup_iterations: 3, head_init: 'normal' },  // as experiments 02 to 07 ran
}
