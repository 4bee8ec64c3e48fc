// Views: what a separate critic is told that the policy is not, `critic+: { view: view.answer_prefix }`
// (docs/estimators.md says why each is a fair baseline and what it costs).
{
  answer_prefix: { template: '{answer}\n', place: 'before_prompt', rollouts: null },
}
