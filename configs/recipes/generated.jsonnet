// credit_short_ppo whose values the policy writes before every step, a digit after a few characters of
// reasons, and learns to by REINFORCE on the Brier score; in the characters of the embedded tokenizer.
local recipes = import '../lib/recipes.libsonnet';

(import '../credit_short_ppo.jsonnet') + recipes.generative + {
  name: 'generated',
  engine+: { max_model_len: 160 },
  values+: { predictors+: { judge+: {
    question: '?',
    think_tokens: 4,
    think_end: '=',
    score_prompt: '',
    score_tokens: 1,
    score_end: '',
    score_of: 9,
    training+: { learning_rate: 1e-5, regression_coef: 0.1 },
  } } },
}
