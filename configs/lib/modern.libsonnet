// Models of today on MATH, sampled at temperature 1 by their chat template; no fine-tuning before.
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
  'Qwen2.5-Math-1.5B': hardware.gpu + share,
  'Qwen2.5-7B': hardware.gpus + share,
};

{
  // Over an algorithm: `algorithm.grpo + modern.qwen('Qwen3-1.7B')`.
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
