// Preference pairs, for `vineppo reward-model`.
local common = { num_test_pairs: 1000, too_long: 'leave_out' };

{
  // Your own files: {"prompt": …, "chosen": …, "rejected": …} a line.
  jsonl(train_path, test_path=null):: common {
    kind: 'jsonl',
    train_path: train_path,
    test_path: test_path,
    prompt: { kind: 'template', template: '{question}\n' },
  },

  // Right against wrong rollouts of runs; or better against worse states of runs with continuations.
  rollouts(run_dirs):: common { kind: 'rollouts', run_dirs: run_dirs, pairs_per_problem: 8 },
  states(run_dirs):: self.rollouts(run_dirs) + { kind: 'states', min_gap: 0.5 },
}
