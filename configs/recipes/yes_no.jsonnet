// credit_short_ppo whose values are a language model's yes or no before every step, trained by
// cross-entropy; in the characters of the embedded tokenizer, "?" is the question and "1" is yes.
local algorithm = import '../lib/algorithm.libsonnet';
local ppo = import '../credit_short_ppo.jsonnet';

ppo + {
  name: 'yes_no',
  credit+: { level: 'step' },
  critic: null,
  values: {
    credit: 'judge',
    predictors: {
      judge: ppo.critic + algorithm.yes_no { question: '?', yes: '1', no: '0', trained: true },
    },
  },
}
