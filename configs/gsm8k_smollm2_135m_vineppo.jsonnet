// VinePPO on GSM8K from the policy of gsm8k_smollm2_135m_sft.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local logging = import 'lib/logging.libsonnet';
local model = import 'lib/model.libsonnet';
local task = import 'lib/task.libsonnet';

algorithm.vineppo + hardware.gpu + logging + {
  name: 'gsm8k_smollm2_135m_vineppo',
  seed: 0,
  num_iterations: 650,
  model: model.pretrained('runs/gsm8k_smollm2_135m_sft/final/policy'),
  task: task.gsm8k,
  engine+: { max_model_len: 1024 },
  sampling+: { max_tokens: 512 },
}
