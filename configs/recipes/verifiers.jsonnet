// VinePPO on an environment of the library verifiers (`vf-install wordle`), a guess a turn.
local base = import '../gsm8k_qwen2.5_0.5b_vineppo.jsonnet';
local task = import '../lib/task.libsonnet';

base + {
  name: 'verifiers',
  task: task.verifiers('wordle'),
  credit+: { segmenter: { kind: 'turns' } },
}
