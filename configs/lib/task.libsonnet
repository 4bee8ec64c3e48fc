// Tasks: the problems, how they are put to the model, and how an answer is graded.
local arithmetic = {
  kind: 'arithmetic',
  train_path: null,
  test_path: null,
  num_train_problems: 64000,
  num_test_problems: 256,
  min_operations: error 'min_operations',
  max_operations: error 'max_operations',
  modulus: 10,
  data_seed: 0,
  demonstrations: {
    systematic_fraction: 0.2,
    systematic_probability: 0.7,
    random_probability: 0.03,
  },
  prompt: { kind: 'template', template: '{question}\n' },
  response_template: '{solution}',
  grading: {
    extraction: 'hash',
    num_workers: 1,
    time_limit_s: 10,
    truncated_reward: 0,
  },
};

{
  // 4 to 6 operations: the demo and the tests.
  arithmetic_short: arithmetic { min_operations: 4, max_operations: 6 },

  // 9 to 12 operations: long enough for step credit to matter; the experiments.
  arithmetic_long: arithmetic { min_operations: 9, max_operations: 12 },

  // GSM8K with the prompt of the VinePPO paper; lines of reasoning and `#### answer`.
  gsm8k: {
    kind: 'gsm8k',
    hub_path: 'openai/gsm8k',
    hub_name: 'main',
    train_path: null,
    test_path: null,
    num_test_problems: null,
    prompt: { kind: 'template', template: '[MATH_TASK] Problem:\n{question}\n\nSolution:' },
    response_template: ' {solution}',
    grading: {
      extraction: 'hash',
      num_workers: 2,
      time_limit_s: 10,
      truncated_reward: 0,
    },
  },

  // Your own files: {"question": …, "answer": …} a line, the answer in a box.
  jsonl(train_path, test_path):: {
    kind: 'jsonl',
    train_path: train_path,
    test_path: test_path,
    num_test_problems: null,
    question_field: 'question',
    answer_field: 'answer',
    solution_field: null,
    id_field: null,
    prompt: { kind: 'template', template: '{question}\n' },
    response_template: '{solution}',
    grading: $.gsm8k.grading { extraction: 'boxed' },
  },

  // GSM8K for an instruction-tuned model: its chat template, the answer in a box.
  gsm8k_chat: self.gsm8k {
    prompt: {
      kind: 'chat',
      template: '{question}\n\nPlease reason step by step, and put your final answer within \\boxed{}.',
      system: null,
    },
    grading+: { extraction: 'boxed' },
  },
}
