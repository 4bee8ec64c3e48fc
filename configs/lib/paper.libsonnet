// The setting of the VinePPO paper (arXiv:2410.01679) and its code: models, data, iterations.
// A leaf adds an algorithm, or `algorithm.sft`; `lib/algorithm.libsonnet` has the other values.
local hardware = import 'hardware.libsonnet';
local logging = import 'logging.libsonnet';
local model = import 'model.libsonnet';
local task = import 'task.libsonnet';

// The base models, and the fine-tuned ones that the authors published and start from.
local models = {
  rho1b: {
    base: 'microsoft/rho-math-1b-v0.1',
    gsm8k: 'realtreetune/rho-1b-sft-GSM8K',
    math: 'realtreetune/rho-1b-sft-MATH',
    sft_learning_rate: 1e-5,
    positions: 2048,
    hardware: hardware.gpu,
  },
  deepseekmath7b: {
    base: 'deepseek-ai/deepseek-math-7b-base',
    gsm8k: 'realtreetune/deepseekmath-7b-sft-GSM8K',
    math: 'realtreetune/deepseekmath-7b-sft-MATH-v2',
    sft_learning_rate: 5e-5,
    positions: 4096,
    hardware: hardware.gpus,
  },
};

// The authors' code decays every learning rate to 0 (DeepSpeed's WarmupDecayLR).
local schedule = 'linear';

local data = {
  gsm8k: {
    task: task.gsm8k,
    num_iterations: 650,
    segmenter: { kind: 'lines' },
  },
  math: {
    // A few problems that draw their figures in text exceed the smaller model's positions.
    task: task.math + { too_long: 'leave_out' },
    num_iterations: 1000,
    segmenter: { kind: 'math', max_formula_chars: 100 },
  },
};

{
  // Over an algorithm: `algorithm.vineppo + paper.setting('rho1b', 'math')`.
  setting(model_name, data_name):: models[model_name].hardware + logging + {
    seed: 0,
    num_iterations: data[data_name].num_iterations,
    model: model.pretrained(models[model_name][data_name]),
    task: data[data_name].task,
    engine+: { max_model_len: models[model_name].positions },
    // As published: the nucleus cuts the support of the policy that samples, but not of the one
    // that trains. Its log-probabilities are then the trainer's, as they were in the paper's code.
    sampling+: { top_p: 0.9, max_tokens: 1024 },
    credit+: { segmenter: data[data_name].segmenter },
    optimization+: { old_logprobs: 'trainer', schedule: schedule },
  },

  // Over `algorithm.sft`.
  finetuning(model_name, data_name):: models[model_name].hardware + hardware.without_logprobs_pass
                                      + logging + {
    seed: 0,
    model: model.pretrained(models[model_name].base),
    task: data[data_name].task,
    engine+: { max_model_len: models[model_name].positions },
    sampling: { temperature: 0.35, top_p: 0.9, max_tokens: 1024 },
    optimization+: {
      learning_rate: models[model_name].sft_learning_rate,
      schedule: schedule,
      max_tokens: models[model_name].positions,
    },
    evaluation+: { every: 0 },
    checkpoint+: { every: 100 },
  },
}
