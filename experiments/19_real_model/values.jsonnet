// VinePPO on GSM8K with a model of half a billion weights, at a size for two CPU cores, and beside its
// own continuations every kind of value that costs next to nothing.
local hardware = import '../../configs/lib/hardware.libsonnet';
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local poise = (import '../../configs/lib/recipes.libsonnet').poise;
local vineppo = import '../../configs/gsm8k_qwen2.5_0.5b_vineppo.jsonnet';
local critic = ((import '../../configs/gsm8k_qwen2.5_0.5b_ppo.jsonnet') + hardware.on_cpu).critic;
local probe = poise.values.predictors.probe { of: 'monte_carlo' };

vineppo + hardware.on_cpu + {
  name: 'real_values',
  num_iterations: 1,
  model+: model.adapters { gradient_checkpointing: false },
  engine+: { max_model_len: 640, max_num_seqs: 128 },
  sampling+: { max_tokens: 320 },
  rollouts: { num_prompts: 12, num_samples: 8 },
  credit+: { segmenter: { kind: 'lines' }, num_continuations: 1 },
  reference+: { kl_coef: 0 },
  optimization+: { learning_rate: 1e-5, num_epochs: 1 },
  values+: {
    predictors: {
      group: { kind: 'group_mean' },
      shrunk: { kind: 'shrunk', of: 'monte_carlo', toward: 'siblings' },
      uncertainty: probe { features: 'uncertainty' },
      probe: probe,
      // Asked in the model's own chat, behind what it has written so far.
      asked: critic + algorithm.yes_no {
        question: '<|im_end|>\n<|im_start|>user\nIs this solution so far correct? Answer Yes or No.<|im_end|>\n<|im_start|>assistant\n',
        yes: 'Yes',
        no: 'No',
      },
      posterior: algorithm.vine_efficient.values.predictors.posterior { num_steps: 64 },
    },
  },
  task+: { num_test_problems: 64 },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 1, keep: 4 },
  logging+: { wandb_project: null },
}
