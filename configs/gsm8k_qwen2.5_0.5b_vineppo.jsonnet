// VinePPO on GSM8K from an instruction-tuned model, by its chat template.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local logging = import 'lib/logging.libsonnet';
local model = import 'lib/model.libsonnet';
local task = import 'lib/task.libsonnet';

algorithm.vineppo + hardware.gpu + logging + {
  name: 'gsm8k_qwen2.5_0.5b_vineppo',
  seed: 0,
  num_iterations: 650,
  model: model.pretrained('Qwen/Qwen2.5-0.5B-Instruct'),
  task: task.gsm8k_chat,
  engine+: { max_model_len: 2048 },
  sampling+: { max_tokens: 1024 },
  credit+: { segmenter: { kind: 'math', max_formula_chars: 100 } },
}
