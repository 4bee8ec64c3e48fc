// What all algorithms have in common on a task, so that they compare: the embedded ones, and MATH for
// models of today.
local hardware = import 'hardware.libsonnet';
local logging = import 'logging.libsonnet';
local model = import 'model.libsonnet';
local task = import 'task.libsonnet';

// The engine's share of a GPU leaves room for a critic (docs/scaling.md).
local share = { engine+: { gpu_memory_utilization: 0.3 } };
// Qwen3 answers at once; `enable_thinking=true` has it think, in more tokens than these.
local answers_at_once = { task+: { prompt+: { chat_template_kwargs: { enable_thinking: false } } } };
local models = {
  'Qwen3-1.7B': hardware.gpu + share + answers_at_once,
  'Qwen2.5-7B': hardware.gpus + share,
};

{
  // Short chains, a few minutes on two cores: the demo.
  short: hardware.cpu + logging + {
    seed: 1,
    num_iterations: 20,
    model: model.arithmetic_short,
    task: task.arithmetic_short,
    engine+: { max_model_len: 128 },
    sampling: { temperature: 1, top_p: 1, max_tokens: 64 },
    rollouts: { num_prompts: 32, num_samples: 8 },
    reference+: { kl_coef: 1e-3 },
    evaluation: { every: 2, num_samples: 4, temperature: 1, top_p: 1 },
    checkpoint: { every: 5, keep: 2 },
  },

  // Long chains, where step credit matters: over a leaf of the demo.
  long: {
    num_iterations: 30,
    model: model.arithmetic_long,
    task: task.arithmetic_long,
    sampling+: { max_tokens: 112 },
    engine+: { max_model_len: 160 },
  },

  // Free wordings and few deciding steps, where step credit can be seen: 16 and 24 lines.
  credit_short: self.short + {
    num_iterations: 60,
    model: model.credit_short,
    task: task.credit_short,
    sampling+: { max_tokens: 96 },
    rollouts: { num_prompts: 4, num_samples: 4 },  // so few that the gradient's noise matters
    reference+: { kl_coef: 0 },
    optimization+: { batch_size: 16, micro_batch_size: 16, learning_rate: 5e-5 },  // experiments/11_credit
    evaluation+: { every: 15 },
    checkpoint: { every: 20, keep: 2 },
  },
  credit_long: self.credit_short + {
    model: model.credit_long,
    optimization+: { learning_rate: 2.5e-5 },
    task: task.credit_long,
    engine+: { max_model_len: 192 },
    sampling+: { max_tokens: 160 },
  },
  // Seven of 24 steps decide, each a little: sheets of separate operations with a pass mark.
  credit_sheet: self.credit_long + {
    model: model.credit_sheet,
    optimization+: { learning_rate: 5e-5 },
    task: task.credit_sheet,
    sampling+: { max_tokens: 144 },
  },

  // MATH, sampled at temperature 1 by the chat template; no fine-tuning before. Over an algorithm:
  // `algorithm.grpo + setting.qwen('Qwen3-1.7B')`.
  qwen(name):: { task: task.math_chat } + models[name] + logging + {
    seed: 0,
    num_iterations: 300,
    model: model.pretrained('Qwen/' + name),
    engine+: { max_model_len: 4096 },
    sampling+: { temperature: 1, max_tokens: 2048 },
    rollouts: { num_prompts: 128, num_samples: 8 },
    credit+: { segmenter: { kind: 'math', max_formula_chars: 100 } },
    optimization+: { num_epochs: 1, batch_size: 256, clip_high: 0.28 },
  },
}
