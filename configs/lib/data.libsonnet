// Data sets: the problems alone, or preference pairs. A task adds how they are put to the model (task.libsonnet);
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

  // To evaluate on, as the hub has them; the fields are the data sets' own.
  aime_2024: $.hub('HuggingFaceH4/aime_2024', 'problem') { test_split: 'train' },  // 30 problems
  aime_2025: $.hub('math-ai/aime25', 'problem'),  // 30
  amc: $.hub('AI-MO/aimo-validation-amc', 'problem') { test_split: 'train' },  // AMC 12 of 2022 and 2023: 83
  amc_2023: $.hub('math-ai/amc23', 'question'),  // 40 of them
  minerva: $.hub('math-ai/minervamath', 'question'),  // OCWCourses: 272

  // To train on, tested on AIME 2024 as in their papers. DAPO's 17,398 problems without the copies,
  // here those in English: 14,116 (arXiv:2503.14476).
  dapo: $.hub('open-r1/DAPO-Math-17k-Processed', 'prompt', 'solution') + $.tested_on(self.aime_2024) + {
    hub_name: 'en',
  },
  // DeepScaleR's 40,315 problems; a few have no answer.
  deepscaler: $.hub('agentica-org/DeepScaleR-Preview-Dataset', 'problem') + $.tested_on(self.aime_2024) + {
    no_answer: 'leave_out',
  },

  // Any data set of the hub whose rows hold a question and an answer.
  hub(path, question_field='question', answer_field='answer'):: {
    kind: 'jsonl',
    hub_path: path,
    question_field: question_field,
    answer_field: answer_field,
  },
  // Another data set as the test set: `data.jsonl('train.jsonl', null) + data.tested_on(data.amc)`.
  tested_on(data):: {
    other_test: { [key]: data[key] for key in std.objectFields(data) if key != 'kind' },
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

  // Preference pairs, for `vineppo reward-model`.
  pairs:: {
    local common = { num_test_pairs: 1000, too_long: 'leave_out' },

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
  },
}
