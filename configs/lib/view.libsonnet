// Critics that are told what the policy is not: `critic+: view.answer_prefix`
// (docs/values.md says why each is a fair baseline and what it costs).
local told(template, place='before_prompt') = { kind: 'informed', view: { template: template, place: place } };

local attempts(template, right, wrong, max_tokens) = told(template) {
  view+: { rollouts: { num: 3, max_tokens: max_tokens, right: right, wrong: wrong } },
};

{
  answer_prefix: told('{answer}\n'),
  boxed_answer: told('\nThe answer is \\boxed{{answer}}.\n', 'before_response'),
  system_hint: told(
    'System: Judge how likely the attempt is to end with the true answer, which is {answer}.\n\n'
  ),
  cot_spoiler: told('A worked solution:\n{solution}\n\n'),
  expected_accuracy: told('Of other attempts {percent} % are right.\n\n'),
  rollout_context: attempts('Other attempts:\n{rollouts}', 'Right:{response}\n\n', 'Wrong:{response}\n\n', 256),

  // In the characters of the embedded tasks' tokenizer, short enough for the models' 256 positions (a
  // sheet's solution is not).
  symbols: {
    answer_prefix: $.answer_prefix,
    boxed_answer: told('{answer}\n', 'before_response'),
    cot_spoiler: told('{solution}\n'),
    expected_accuracy: told('{percent}\n'),
    rollout_context: attempts('{rollouts}', '+{response}\n', '-{response}\n', 16),
  },
}
