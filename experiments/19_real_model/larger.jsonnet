// Values of Qwen2.5-Coder-1.5B-Instruct as it comes, which stands still, on GSM8K's problems of three or more
// calculations. Its critic, two layers that learn for one iteration, is there that the policy waits for it.
local algorithm = import '../../configs/lib/algorithm.libsonnet';
local task = import '../../configs/lib/task.libsonnet';
local lines = import 'gsm8k_values.jsonnet';
local models = 'runs/19_real_model_models/';
local chat(text) = '<|im_end|>\n<|im_start|>user\n' + text + '<|im_end|>\n<|im_start|>assistant\n';

lines + {
  local config = self,
  name: 'larger',
  num_iterations: 1,
  model+: { path: models + 'qwen_larger' },
  task: task.gsm8k_chat {
    train_path: models + 'gsm8k_longer.jsonl',
    test_path: models + 'gsm8k_longer.jsonl',
    num_test_problems: 1,
    prompt+: {
      template: '{question}\n\nWrite each calculation on a short line of its own, and nothing else. End with a line '
                + '"#### " and the answer, a number.',
    },
    grading+: { extraction: 'hash' },
  },
  engine+: { max_model_len: 512 },
  sampling+: { max_tokens: 192 },
  rollouts: { num_prompts: 30, num_samples: 6 },
  optimization+: { batch_size: 60, micro_batch_size: 12, logprobs_micro_batch_size: 12 },
  critic+: { path: models + 'qwen_two_layers', batch_size: 60, micro_batch_size: 12, warmup_iterations: 1 },
  values+: {
    local asked = config.critic + algorithm.yes_no {
      path: config.model.path,
      question: chat('Is this solution so far correct? Answer Yes or No.'),
      yes: 'Yes',
      no: 'No',
    },
    predictors: { [name]: super.predictors[name] for name in ['drawn', 'shrunk', 'smoothed', 'group'] } + { asked: asked },
  },
}
