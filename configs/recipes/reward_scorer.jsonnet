// demo_vineppo, half of the reward by a reward model (configs/reward_model_arithmetic.jsonnet trains it).
local demo = import '../demo_vineppo.jsonnet';

demo + {
  name: 'reward_scorer',
  reward_model: {
    kind: 'reward_model',
    path: 'runs/reward_model_arithmetic/final/reward_model',
    weight: 0.5,
    output: 'probability',
    micro_batch_size: 128,
  },
}
