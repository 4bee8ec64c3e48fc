// Base models of today on MATH, sampled at temperature 1 by their chat template; no fine-tuning before.
local hardware = import 'hardware.libsonnet';
local logging = import 'logging.libsonnet';
local model = import 'model.libsonnet';
local task = import 'task.libsonnet';

// The engine's share of a GPU leaves room for a critic (docs/scaling.md).
local share(x) = { engine+: { gpu_memory_utilization: x } };
local hardware_of = {
  '0.5B': hardware.gpu,
  '1.5B': hardware.gpu + share(0.3),
  '7B': hardware.gpus + share(0.3),
};

{
  // Over an algorithm: `algorithm.grpo + modern.qwen('1.5B')`.
  qwen(size):: hardware_of[size] + logging + {
    seed: 0,
    num_iterations: 300,
    model: model.pretrained('Qwen/Qwen2.5-' + size),
    task: task.math_chat,
    engine+: { max_model_len: 4096 },
    sampling+: { temperature: 1, max_tokens: 2048 },
    rollouts: { num_prompts: 128, num_samples: 8 },
    credit+: { segmenter: { kind: 'math', max_formula_chars: 100 } },
    optimization+: { num_epochs: 1, batch_size: 256, clip_high: 0.28 },
  },
}
