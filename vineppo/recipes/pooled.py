"""Returns of all rollouts that pass a state, pooled with the continuations sampled there.

    V̂_i(s) = (Σ_k r_k + Σ_{j ∈ J} R_j) / (K + |J|)
    J = {j ≠ i of the problem: the response of j begins with the tokens before s}

with the K returns r_k of the predictor `of` at s, and the rewards R_j. The rollouts of a problem
are a tree of prefixes. TEMPO (arXiv:2509.18314) values a node by the mean reward of all rollouts
below it, RTMC (arXiv:2604.11037) by the mean reward of rollouts that share a state. Here the
rollout's own reward stays out, and the continuations come in.

What may be pooled at s, and what not:

- R_j of another rollout that passes s: given that it does, what it does from s on is a sample of
  the policy, independent of rollout i. Also where it happens to take i's action a: leaving out
  those that do, or taking them alone, would make the baseline depend on a.
- The continuations from s itself. With "separate" identical prefixes, those from every rollout that
  passes s; "share" has them in one list already.
- Not R_i, nor the continuations of later states of rollout i: they follow from a.
- Not the continuations of later states of another rollout j: they are samples given j's path and
  not given s. Those of the first state after s together would be, as j's step there is the
  policy's; they are not used.

It is unbiased in both roles where step starts follow from the tokens before them. Given s, every
pooled return has the mean V(s), their number follows from prefixes alone, and none depends on a. So
V̂(s_{i+1}) is an unbiased Q̂(s_i, a_i) and V̂(s_i) a baseline, and `vine` on these values has an
unbiased gradient, as on Monte-Carlo values.

Cost: none beyond what `of` samples; nothing is trained.
"""

from collections.abc import Sequence

from vineppo.config.schema import ReturnsReader
from vineppo.types import Rollout, by_problem
from vineppo.values import ValuePredictor


class Pooled(ValuePredictor):
    """The mean of a state's continuations and of the rewards of the other rollouts that pass it.

    Responses (5, 6, 7) of reward 0 and (5, 6, 8) of reward 1, with a step start after 5, 6 and one
    continuation of reward 0 there: V̂ = (0 + 1)/2 for the first and (0 + 0)/2 for the second.
    """

    is_made_of_returns = True
    takes_turns = True

    Config = ReturnsReader

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        for group_G in by_problem(rollouts):
            self.set_values(group_G, [self._values(group_G, i) for i in range(len(group_G))])

    def _values(self, group_G: list[Rollout], i: int) -> list[float]:
        rollout = group_G[i]
        others = [
            (num_shared(rollout.response_ids, other.response_ids), other)
            for other in group_G[:i] + group_G[i + 1 :]
        ]
        values_S = []
        for span, state in zip(rollout.spans_S, rollout.returns_S[self.options.of], strict=True):
            returns = list(state.returns_K)
            for shared, other in others:
                if span.start <= shared:
                    returns.append(other.reward)
                    returns += self._continuations(other, span.start)
            values_S.append(sum(returns) / len(returns))
        return values_S

    def _continuations(self, other: Rollout, start: int) -> Sequence[float]:
        """Those of the same state that only the other rollout has."""
        sampled = self.config.continuations[self.options.of]
        if sampled.identical_prefixes != "separate":
            return ()
        states = zip(other.spans_S, other.returns_S[self.options.of], strict=True)
        return [r for span, state in states if span.start == start for r in state.returns_K]


def num_shared(ids: Sequence[int], others: Sequence[int]) -> int:
    """How many tokens two responses begin with together: of (5, 6, 7) and (5, 6, 8) two."""
    length = min(len(ids), len(others))
    return next((t for t in range(length) if ids[t] != others[t]), length)
