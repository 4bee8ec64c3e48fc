// Critics as papers have them, each over `algorithm.ppo` or a leaf of it: `ppo + recipes.bpco`. What
// is not said here is the leaf's (docs/methods.md).
local algorithm = import 'algorithm.libsonnet';

// R − V(s) at every step, by the values of a predictor in the critic's place.
local baseline(name, predictors) = {
  credit+: { level: 'step', policy_lambda: 1, length_adaptive_alpha: null },
  critic: null,
  values+: { credit: name, predictors+: predictors },
};

{
  // Best Practice Critic Optimization (arXiv:2608.23566): values within the reward's range, Monte-Carlo
  // targets, a length-adaptive λ (VAPO's α), advantages as they are. Its loss, DPPO, is not here;
  // `view.libsonnet` tells the critic the answer, as the paper may.
  bpco: {
    credit+: { critic_lambda: 1, policy_lambda: null, length_adaptive_alpha: 0.05 },
    critic+: { loss: { kind: 'cross_entropy', low: 0, high: 1 }, head_init: 'zero' },
    optimization+: { whiten_advantages: false },
  },

  // VC-PPO's decoupled λ (arXiv:2503.01491); its value pre-training is `critic.warmup_iterations`.
  decoupled_lambda: {
    credit+: { critic_lambda: 1, policy_lambda: 0.95, length_adaptive_alpha: null },
  },

  // VAPO's language-model loss on right responses (arXiv:2504.05118, section 4.3).
  positive_examples: { optimization+: { positive_examples: { coef: 0.1, min_reward: 0.5 } } },

  // A critic of another size than the policy: a model with the policy's tokenizer.
  critic_of(path):: { critic+: { path: path } },

  // Two critics on disjoint halves of every problem's rollouts, valued by their mean.
  two_critics: { critic+: { kind: 'ensemble' } },

  // AsyPPO (arXiv:2510.01656): the same with its masks, whose shares are ours; `critic_of` makes the
  // critics small.
  asyppo: self.two_critics { critic+: { agreed: 0.2, disputed: 0.2 }, optimization+: { entropy_coef: 1e-3 } },

  // RLOO with a shrinkage baseline (arXiv:2511.03710): drawn towards the mean of other problems.
  shrinkage: baseline('shrunk_mean', { shrunk_mean: { kind: 'shrunk_mean' } }),

  // V0.5 (arXiv:2603.10848): a prior that does not train, here the policy's own yes or no, fused with
  // the problem's few other rewards.
  v05: {
    local critic = super.critic,
    values+: { predictors+: { prior: critic + algorithm.yes_no } },
  } + baseline('fused', { fused: { kind: 'fused', prior: 'prior' } }),

  // POISE (arXiv:2605.07579): a probe on the policy's states and uncertainty at the end of the other
  // rollouts, fitted to other problems' rewards; one value a response. Without `crossed` every state
  // has a value by what led to it.
  poise: baseline('probe', { probe: { kind: 'probe', features: 'both', crossed: true } }),

  // GenAC (arXiv:2604.10701) with a proper score: the policy writes the values and learns to.
  generative: baseline('judge', { judge: algorithm.generative + algorithm.learned }),
}
