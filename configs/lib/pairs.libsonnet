// Preference pairs, for `vineppo reward-model`.
local common = { num_test_pairs: 1000, too_long: 'leave_out' };

local text = common {
  // A text in place of a conversation is its user message.
  prompt: { kind: 'chat', template: '{question}', system: null },
  margin_field: null,
};

local hub(path) = text {
  kind: 'hub',
  hub_path: path,
  hub_name: null,
  train_split: 'train',
  test_split: null,
};

{
  skywork: hub('Skywork/Skywork-Reward-Preference-80K-v0.2'),
  tulu: hub('allenai/llama-3.1-tulu-3-8b-preference-mixture'),

  // Your own files: {"prompt": …, "chosen": …, "rejected": …} a line, or conversations.
  jsonl(train_path, test_path=null):: text {
    kind: 'jsonl',
    train_path: train_path,
    test_path: test_path,
    prompt: { kind: 'template', template: '{question}\n' },
  },

  // Right against wrong rollouts of runs; or better against worse states of runs with continuations.
  rollouts(run_dirs):: common { kind: 'rollouts', run_dirs: run_dirs, pairs_per_problem: 8 },
  states(run_dirs):: self.rollouts(run_dirs) + { kind: 'states', min_gap: 0.5 },
}
