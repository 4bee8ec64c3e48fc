// SmolLM2-135M on the GSM8K demonstrations: the start of gsm8k_smollm2_135m_vineppo.
local algorithm = import 'lib/algorithm.libsonnet';
local hardware = import 'lib/hardware.libsonnet';
local logging = import 'lib/logging.libsonnet';
local model = import 'lib/model.libsonnet';
local task = import 'lib/task.libsonnet';

algorithm.sft + hardware.gpu + hardware.without_logprobs_pass + logging + {
  name: 'gsm8k_smollm2_135m_sft',
  seed: 0,
  model: model.pretrained('HuggingFaceTB/SmolLM2-135M'),
  task: task.gsm8k,
  engine+: { max_model_len: 1024 },
  sampling: { temperature: 0.35, top_p: 0.9, max_tokens: 512 },
  optimization+: { learning_rate: 5e-5, num_epochs: 3, max_tokens: 1024 },
  evaluation+: { every: 0, num_samples: 4 },
  checkpoint+: { every: 100 },
}
