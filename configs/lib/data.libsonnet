// Data sets: the problems alone. A task adds how they are put to the model (task.libsonnet);
// `vineppo evaluate RUN_DIR --task` takes that from the run (configs/evaluation).
{
  // `--set task.test_path=FILE` puts a local file of the same fields in the hub's place.
  gsm8k: { kind: 'gsm8k', hub_path: 'openai/gsm8k', hub_name: 'main' },

  // PRM800K's split: 12,000 to train on, 500 to test.
  math: { kind: 'math', hub_path: 'nlile/hendrycks-MATH-benchmark' },

  // To evaluate on: all 1,000 problems of SVAMP, and the 674 of OlympiadBench that are mathematics in
  // English text with a final answer.
  svamp: { kind: 'svamp', hub_path: 'ChilleD/SVAMP' },
  olympiadbench: {
    kind: 'olympiadbench',
    hub_path: 'Hothan/OlympiadBench',
    hub_name: 'OE_TO_maths_en_COMP',
  },

  // Your own files: {"question": …, "answer": …} a line. To evaluate on, `train_path` may be null.
  jsonl(train_path, test_path):: {
    kind: 'jsonl',
    train_path: train_path,
    test_path: test_path,
  },

  // Files in the form of other libraries (docs/extending.md). verl's Parquet:
  verl(train_path, test_path):: $.jsonl(train_path, test_path) {
    question_field: 'prompt',
    answer_field: 'reward_model.ground_truth',
  },
  // TRL's prompts with a column of true answers; OpenRLHF's with `--input_key prompt --label_key`.
  trl(train_path, test_path, answer_field='ground_truth'):: $.jsonl(train_path, test_path) {
    question_field: 'prompt',
    answer_field: answer_field,
  },
}
