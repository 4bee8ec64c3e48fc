// PPO with a critic on GSM8K: the baseline of gsm8k_qwen2.5_0.5b_vineppo.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local logging = import 'lib/logging.libsonnet';
local model = import 'lib/model.libsonnet';
local task = import 'lib/task.libsonnet';

algorithm.ppo + hardware.gpu + hardware.critic_as_policy + logging + {
  name: 'gsm8k_qwen2.5_0.5b_ppo',
  seed: 0,
  num_iterations: 650,
  model: model.pretrained('Qwen/Qwen2.5-0.5B-Instruct'),
  task: task.gsm8k_chat,
  engine+: { max_model_len: 2048 },
  sampling+: { max_tokens: 1024 },
  credit+: { segmenter: { kind: 'math', max_formula_chars: 100 } },
}
