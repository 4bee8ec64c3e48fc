// VinePPO on the shorter problems of GSM8K with a model of half a billion weights, at a size for two CPU cores,
// and beside its own continuations what can be said of a state without training.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local poise = (import '../../configs/lib/recipes.libsonnet').poise;
local vineppo = import '../../configs/gsm8k_qwen2.5_0.5b_vineppo.jsonnet';
local critic = ((import '../../configs/gsm8k_qwen2.5_0.5b_ppo.jsonnet') + hardware.on_cpu).critic;

local models = 'runs/19_real_model_models/';
local probe = poise.values.predictors.probe { of: 'monte_carlo', crossed: false };
local chat(text) = '<|im_end|>\n<|im_start|>user\n' + text + '<|im_end|>\n<|im_start|>assistant\n';

vineppo + hardware.on_cpu + {
  name: 'real_values',
  num_iterations: 1,
  model+: model.adapters { path: models + 'qwen', gradient_checkpointing: false },
  task+: {
    train_path: models + 'gsm8k_short_train.jsonl',
    test_path: models + 'gsm8k_short_test.jsonl',
    num_test_problems: 64,
  },
  engine+: { max_model_len: 640, max_num_seqs: 128 },
  sampling+: { max_tokens: 384 },
  rollouts: { num_prompts: 12, num_samples: 8 },
  credit+: { segmenter: { kind: 'lines' }, num_continuations: 1 },
  reference+: { kl_coef: 0 },
  optimization+: { learning_rate: 1e-5, num_epochs: 1 },
  values+: {
    predictors: {
      group: { kind: 'group_mean' },
      shrunk: { kind: 'shrunk', of: 'monte_carlo', toward: 'siblings' },
      smoothed: { kind: 'smoothed', of: 'monte_carlo', change: 0.2, direction: 'causal' },
      uncertainty: probe { features: 'uncertainty' },
      probe: probe,
      // Asked in the model's own chat, behind what it has written so far.
      asked: critic + algorithm.yes_no {
        question: chat('Is this solution so far correct? Answer Yes or No.'),
        yes: 'Yes',
        no: 'No',
      },
      fused: { kind: 'fused', prior: 'asked' },
      written: algorithm.generative {
        num_samples: 1,
        question: chat('How likely is this solution to end with the right answer? Think in at most 20 words, then '
                       + 'give a percentage.') + '<value_think>',
        think_tokens: 40,
      },
    },
  },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 1, keep: 2 },
  logging+: { wandb_project: null },
}
