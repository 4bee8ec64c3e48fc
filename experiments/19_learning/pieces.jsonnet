// Every loss, recipe and kind of value that values.jsonnet has not, for one iteration. Half a billion weights
// train adapters; critics, which have none, stand beside the 135 million of SmolLM2. run.sh puts the models there.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local hardware = import '../../configs/lib/hardware.libsonnet';
local logging = import '../../configs/lib/logging.libsonnet';
local loss = import '../../configs/lib/loss.libsonnet';
local model = import '../../configs/lib/model.libsonnet';
local recipes = import '../../configs/lib/recipes.libsonnet';
local task = import '../../configs/lib/task.libsonnet';
local view = import '../../configs/lib/view.libsonnet';

local models = 'runs/19_real_model_models/';
local on(policy, algorithm) = algorithm + hardware.gpu + hardware.on_cpu + logging + policy + {
  num_iterations: 1,
  task: task.gsm8k_chat {
    train_path: models + 'gsm8k_short_train.jsonl',
    test_path: models + 'gsm8k_short_test.jsonl',
    num_test_problems: 4,
  },
  engine+: { max_model_len: 640, cpu_kv_cache_gib: 1 },
  sampling+: { max_tokens: 256 },
  rollouts: { num_prompts: 4, num_samples: 4 },
  optimization+: { learning_rate: 1e-5, batch_size: 8 },
  evaluation+: { every: 0, num_samples: 1 },
  checkpoint: { every: 0, keep: 1 },
  logging+: { wandb_project: null },
};
local qwen = { model: model.pretrained(models + 'qwen') + model.adapters { gradient_checkpointing: false } };
local small = { model: model.pretrained(models + 'smollm2') { gradient_checkpointing: false } };
local ppo = algorithm.ppo + hardware.critic_as_policy;
local critic = on(small, ppo).critic;

local chat(text) = '<|im_end|>\n<|im_start|>user\n' + text + '<|im_end|>\n<|im_start|>assistant\n';
local yes_no = algorithm.yes_no {
  question: chat('Is this solution so far correct? Answer Yes or No.'),
  yes: 'Yes',
  no: 'No',
};
local judged(name, judge) = {
  credit+: { level: 'step' },
  critic: null,
  values: { credit: name, predictors: { [name]: judge } },
};

local pieces = {
  spo_chain: on(qwen, algorithm.spo_chain { credit+: { num_continuations: 3 } }),
  spo_tree: on(qwen, algorithm.spo_tree { credit+: { branching: [2, 2], tokens_per_level: 48 } }),
  privileged: on(qwen, algorithm.vine_privileged),
  pooled_smoothed: on(qwen, algorithm.vineppo {
    credit+: { num_continuations: 1 },
    values+: { predictors+: {
      pooled: { kind: 'pooled', of: 'monte_carlo' },
      smoothed: { kind: 'smoothed', of: 'monte_carlo', change: 0.2, direction: 'causal' },
    } },
  }),
  gspo_sequence_correction: on(qwen, algorithm.grpo + loss.gspo + loss.sequence_correction),
  cispo_sequence_masking: on(qwen, algorithm.grpo + loss.cispo + loss.sequence_masking),
  dr_grpo_pf_ppo: on(qwen, algorithm.grpo + loss.dr_grpo + loss.pf_ppo),
  dapo_positive_examples: on(qwen, algorithm.grpo + loss.dapo + recipes.positive_examples) {
    optimization+: { max_redraws: 2 },
  },
  masked_tokens: on(qwen, algorithm.grpo {
    optimization+: { token_mask_path: 'experiments/19_learning/mask.py' },
  }),
  kl_importance: on(qwen, algorithm.rloo {
    reference+: { kl_in: 'loss', kl_estimator: 'k3', kl_importance: true },
  }),
  v05: on(qwen, ppo + recipes.v05 { values+: { predictors+: { prior+: yes_no } } }),
  poise: on(qwen, ppo + recipes.poise),
  generative: on(qwen, ppo + recipes.generative {
    values+: { predictors+: { judge+: {
      question: chat('How likely is this solution to end with the right answer? Think in at most 30 words, then give a '
                     + 'percentage.') + '<value_think>',
      think_tokens: 48,
    } } },
  }) {
    // Every answer trains with its state: few states, which are chunks.
    rollouts: { num_prompts: 2, num_samples: 2 },
    optimization+: { batch_size: 4 },
    credit+: { segmenter: { kind: 'tokens', num_tokens: 64 } },
  },
  rewarded: on(qwen, algorithm.rloo {
    reward_model: {
      kind: 'reward_model',
      path: models + 'outcome/final/reward_model',
      weight: 0.5,
      output: 'probability',
      micro_batch_size: 4,
    },
  }),
  process: on(qwen, algorithm.vineppo {
    credit+: { num_continuations: 0 },
    values: { credit: 'process', predictors: {
      process: {
        kind: 'reward_model',
        path: models + 'process/final/reward_model',
        output: 'probability',
      },
    } },
  }),
  critic_from_reward_model: on(qwen, ppo + recipes.critic_of(models + 'outcome/final/reward_model')),
  views_bpco: on(small, ppo + recipes.bpco {
    values+: { predictors+: {
      [name]: critic + recipes.bpco.critic + view[name]
      for name in std.objectFields(view)
      if name != 'symbols'
    } },
  }),
  smaller_critic: on(small, ppo + recipes.critic_of(models + 'smollm2_half')),
  bootstrapped: on(small, ppo { credit+: { kind: 'gae_bootstrapped' }, critic+: { head_init: 'zero' } }) {
    sampling+: { max_tokens: 128 },
  },
  shrinkage: on(qwen, ppo + recipes.shrinkage),
  asyppo_decoupled_lambda: on(small, ppo + recipes.asyppo + recipes.decoupled_lambda),
  yes_no_trained: on(small, ppo + judged('judge', critic + yes_no { trained: true })),
};
{
  runs: [
    {
      name: 'piece_' + name,
      seed: 0,
      config: '../../configs/gsm8k_qwen2.5_0.5b_vineppo.jsonnet',
      set: { [key]: pieces[name][key] for key in std.objectFields(pieces[name]) },
    }
    for name in std.objectFields(pieces)
  ],
  evaluations: [],
}
