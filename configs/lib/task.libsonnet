// Tasks: the problems, how they are put to the model, and how an answer is graded.
local data = import 'data.libsonnet';

// The prompt of the VinePPO paper, for base models and what is fine-tuned from them.
local paper = {
  prompt: { kind: 'template', template: '[MATH_TASK] Problem:\n{question}\n\nSolution:' },
  response_template: ' {solution}',
};

// An instruction-tuned model's own chat template, the answer in a box.
local chat = {
  prompt: {
    kind: 'chat',
    template: '{question}\n\nPlease reason step by step, and put your final answer within \\boxed{}.',
  },
  grading: { extraction: 'boxed' },
};

// The prompt of DAPO (arXiv:2503.14476), by the model's chat template.
local dapo = {
  prompt: {
    kind: 'chat',
    template: 'Solve the following math problem step by step. The last line of your response should be of '
              + 'the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n'
              + '{question}\n\nRemember to put your answer on its own line after "Answer:".',
  },
  grading: { extraction: 'answer' },
};

// Prompts that are whole, the answer in a box.
local as_it_is = {
  prompt: { kind: 'template', template: '{question}' },
  grading: { extraction: 'boxed' },
};

local generated = {
  prompt: { kind: 'template', template: '{question}\n' },
  grading: { extraction: 'hash', num_workers: 1 },
};
local arithmetic = generated { kind: 'arithmetic' };
local worded = generated { kind: 'worded' };

{
  // 4 to 6 operations: the demo and the tests.
  arithmetic_short: arithmetic { min_operations: 4, max_operations: 6 },

  // 9 to 12 operations: long enough for step credit to matter; the experiments.
  arithmetic_long: arithmetic { min_operations: 9, max_operations: 12 },

  // Chains with free wordings, of which few steps decide: what step credit can be seen on.
  credit_short: worded { num_operations: 4, num_remarks: 3 },
  credit_long: worded { num_operations: 8, num_hard_facts: 15 },
  // Eight separate operations, seven of them in doubt, of which six must be right.
  credit_sheet: worded {
    layout: 'sheet',
    num_operations: 8,
    num_hard_steps: 7,
    grading+: { num_matching: 6 },
  },

  // GSM8K: lines of reasoning and `#### answer`.
  gsm8k: data.gsm8k + paper { grading: { extraction: 'hash' } },
  gsm8k_chat: data.gsm8k + chat,

  // MATH: solutions whose answer is in a box. (Where there is none, the paper's code takes "the answer
  // is …" or the last number; here such a response is wrong.)
  math: data.math + paper { grading: { extraction: 'boxed' } },
  math_chat: data.math + chat,

  // DAPO's and DeepScaleR's problems; `task.chat(data)` puts any data set of data.libsonnet.
  dapo: data.dapo + dapo,
  deepscaler: data.deepscaler + chat,
  chat(data):: data + chat,

  // Your own files: {"question": …, "answer": …} a line, the answer in a box.
  jsonl(train_path, test_path):: data.jsonl(train_path, test_path) + {
    prompt: { kind: 'template', template: '{question}\n' },
    grading: $.math.grading,
  },

  // Files in the form of other libraries (docs/extending.md). Their prompts are whole: strings
  // that are put as they are, or with `as_messages` conversations for the model's chat template.
  verl(train_path, test_path):: data.verl(train_path, test_path) + as_it_is + $.as_messages,
  trl(train_path, test_path, answer_field='ground_truth')::
    data.trl(train_path, test_path, answer_field) + as_it_is,
  as_messages:: { prompt: { kind: 'chat', template: '{question}' } },

  // Problems that your own class makes, 'FILE.py:Class' (docs/extending.md).
  plugin(kind):: {
    kind: kind,
    prompt: { kind: 'template', template: '{question}\n' },
    grading: $.math.grading,
  },

  // The embedded environment (docs/environments.md): the chains an operation a turn.
  drill: self.arithmetic_short { environment: { kind: 'drill', max_turn_tokens: 4 } },

  // Your own environment, over any task: `task.gsm8k + task.played_in('mine/game.py:Game')`.
  played_in(kind, max_turn_tokens=256):: {
    environment: { kind: kind, max_turn_tokens: max_turn_tokens },
  },

  // Countdown, checked by its own arithmetic; a family of the library reasoning-gym.
  countdown: {
    kind: 'countdown',
    prompt: {
      kind: 'chat',
      template: '{question} Think step by step. The last line of your response should be of the form '
                + 'Answer: $Expression, without quotes.',
    },
    grading: { extraction: 'answer', reward_path: 'vineppo.recipes.countdown:reward' },
  },
  reasoning_gym(name, options={}):: chat + { kind: 'reasoning_gym', name: name, options: options },

  // One of the library verifiers, and its problems: the module `id` has `load_environment`.
  verifiers(id, options={}, max_turn_tokens=512):: as_it_is + $.as_messages + {
    kind: 'verifiers',
    id: id,
    options: options,
    environment: { kind: 'verifiers', max_turn_tokens: max_turn_tokens },
  },
}
