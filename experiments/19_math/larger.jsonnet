// Values of Qwen2.5-Coder-1.5B-Instruct as it comes, which stands still, on GSM8K's problems of three or more
// calculations. Its critic, two layers that learn for one iteration, is there that the policy waits for it.
local task = import '../../configs/lib/task.libsonnet';
local lines = import '../19_real_model/gsm8k_values.jsonnet';
local asked = (import '../19_real_model/values.jsonnet').values.predictors.asked;
local models = 'runs/19_real_model_models/';
// Two of GSM8K's own, of two calculations each, as turns that went before.
local turn(question, answer) =
  '<|im_start|>user\n' + question + '<|im_end|>\n<|im_start|>assistant\n' + answer;
local solved(question, answer) = turn(question, answer) + '<|im_end|>\n';
local two_solved =
  solved('Tim has 30 less apples than Martha, and Harry has half as many apples as Tim. If Martha has 68 apples, how many '
         + 'apples does Harry have?', 'Tim has 68-30 = 38 apples.\nHarry has 38/2 = 19 apples.\n#### 19')
  + solved('Joy can read 8 pages of a book in 20 minutes. How many hours will it take her to read 120 pages?',
           'In one hour, there are 3 sets of 20 minutes.\nSo, Joy can read 8 x 3 = 24 pages in an hour.\nIt will take her '
           + '120/24 = 5 hours to read 120 pages.\n#### 5');

lines + {
  local config = self,
  name: 'larger',
  num_iterations: 1,
  model+: { path: models + 'qwen_larger' },
  task: task.gsm8k_chat {
    train_path: models + 'gsm8k_longer.jsonl',
    test_path: models + 'gsm8k_longer.jsonl',
    num_test_problems: 1,
    prompt: { kind: 'template', template: two_solved + turn('{question}', '') },
    grading+: { extraction: 'hash' },
  },
  engine+: { max_model_len: 768 },
  sampling+: { max_tokens: 192 },
  rollouts: { num_prompts: 20, num_samples: 5 },
  optimization+: { batch_size: 50, micro_batch_size: 10, logprobs_micro_batch_size: 10 },
  critic+: { path: models + 'qwen_two_layers', batch_size: 50, micro_batch_size: 10, warmup_iterations: 1 },
  values+: {
    predictors: { [name]: lines.values.predictors[name] for name in ['drawn', 'shrunk', 'smoothed', 'group'] } + {
      asked: asked { path: config.model.path },
    },
  },
}
