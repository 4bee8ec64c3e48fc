"""What a run's last policy says of its saved rollouts: scores, and a martingale fitted to others.

The fit is `values.posterior.Posterior` as training has it, iteration by iteration, on one half of
the problems; it then values the other half, and the other way round. No value has seen the reward
of its own problem.
"""

from collections.abc import Sequence

import torch

from vineppo.config.schema import PosteriorValues, TrainConfig
from vineppo.models import LoadedModel, load_model
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores
from vineppo.types import Rollout, TrainBatch
from vineppo.values.policy_pass import read_policy
from vineppo.values.posterior import Posterior

NAME = "posterior"
SCORE_SQUARES = "score_squares"
AT_ONCE = 256  # rollouts, whose hidden states are padded to one length
LEAST_STEPS = 600  # of Adam, over all iterations: what few iterations of rollouts still bear


def fit_martingale(
    config: TrainConfig, policy_path: str, iterations: Sequence[Sequence[Rollout]], num_last: int
) -> None:
    """Sets "score_squares" and "differences/posterior" of all tokens of the last iterations.

    The squared length of a token's score is Σ_a (1[a = a_t] − π(a))² = 1 − 2 π(a_t) + Σ_a π(a)²,
    where the sum is over the likeliest tokens that the fit looks at.
    """
    own = PosteriorValues(
        kind="posterior", num_candidates=32, size=128, learning_rate=3e-3, weight_decay=0.05,
        num_steps=max(16, LEAST_STEPS // len(iterations)), batch_size=32,
        replay_iterations=len(iterations),
    )  # fmt: skip
    loaded = load_model(policy_path, config.model.dtype, config.model.attention)
    rollouts = [rollout for of_iteration in iterations for rollout in of_iteration]
    _pass(config, loaded, own, rollouts)
    problems = sorted({rollout.problem.id for rollout in rollouts})
    half = set(problems[::2])
    for is_first in (True, False):
        fitted = Posterior(NAME, config, own, loaded)
        for number, of_iteration in enumerate(iterations):
            learnt = [r for r in of_iteration if (r.problem.id in half) == is_first]
            if learnt:
                fitted.estimate(learnt)  # by what it knows before: how far its values are to trust
                fitted.update(learnt, number)
        last = [rollout for of_iteration in iterations[-num_last:] for rollout in of_iteration]
        others = [r for r in last if (r.problem.id in half) != is_first]
        for start in range(0, len(others), AT_ONCE):
            fitted.estimate(others[start : start + AT_ONCE])
    for rollout in rollouts:
        rollout.choices = None  # hidden states, no more needed


def _pass(
    config: TrainConfig, loaded: LoadedModel, own: PosteriorValues, rollouts: Sequence[Rollout]
) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).to(device).eval()

    def scores_of(batch: TrainBatch, options: ForwardOptions) -> TokenScores:
        return TokenScores(*module(batch, options))

    def squares(scores: TokenScores) -> list[torch.Tensor]:
        assert scores.candidate_logprobs_BTK is not None, "asked for"
        sums_BT = (2 * scores.candidate_logprobs_BTK).exp().sum(-1)
        return [1 - 2 * scores.logprobs_BT.exp() + sums_BT]

    (squares_B,) = read_policy(
        rollouts, [Posterior(NAME, config, own)], scores_of,
        ForwardOptions(config.sampling.temperature), squares,
        config.optimization.logprobs_micro_batch_size, device,
    )  # fmt: skip
    for rollout, squares_T in zip(rollouts, squares_B, strict=True):
        rollout.tokens_T[SCORE_SQUARES] = squares_T
