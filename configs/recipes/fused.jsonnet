// V0.5: the policy's own yes or no about the prompt, fused with the problem's few other rewards.
local recipes = import '../lib/recipes.libsonnet';

(import '../credit_short_ppo.jsonnet') + recipes.v05 + {
  name: 'fused',
  // In the characters of the embedded tokenizer.
  values+: { predictors+: { prior+: { question: '?', yes: '1', no: '0' } } },
}
