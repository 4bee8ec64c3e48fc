"""Passes of a run's last policy over its saved rollouts: scores, and a fitted martingale.

Training's "posterior" is fitted on one half of the problems and values the other half, and vice
versa. No value has seen the reward of its problem.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from rich.progress import Progress

from analysis.sampling.gradients import CountSketch
from vineppo.batching import collate
from vineppo.config.schema import PredictorConfig, TrainConfig
from vineppo.models import LoadedModel, load_model
from vineppo.plugins import Plugin
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores, hidden_before_tokens
from vineppo.types import Rollout, TrainBatch
from vineppo.values.policy_pass import read_policy
from vineppo.vocabulary import Softmax

NAME = "posterior"
SCORE_SQUARES = "score_squares"
AT_ONCE = 256  # rollouts, whose hidden states are padded to one length
SKETCH_SIZE = 2**14  # coordinates of a rollout's gradient; all rollouts' are held
LEAST_STEPS = 600  # of Adam, over all iterations: what few iterations of rollouts still bear


def fit_martingale(
    config: TrainConfig, policy_path: str, iterations: Sequence[Sequence[Rollout]], num_last: int
) -> None:
    """Sets "score_squares" and "differences/posterior" of all tokens of the last iterations.

    The squared length of a token's score is Σ_a (1[a = a_t] − π(a))² = 1 − 2 π(a_t) + Σ_a π(a)².
    The sum is over the likeliest tokens that the fit looks at.
    """
    fit = Plugin("values").parse({
        "kind": NAME, "num_candidates": 32, "size": 128, "learning_rate": 3e-3,
        "weight_decay": 0.05, "num_steps": max(16, LEAST_STEPS // len(iterations)),
        "batch_size": 32, "replay_iterations": len(iterations),
    })  # fmt: skip
    loaded = load_model(policy_path, config.model.dtype, config.model.attention)
    rollouts = [rollout for of_iteration in iterations for rollout in of_iteration]
    _pass(config, loaded, fit, rollouts)
    problems = sorted({rollout.problem.id for rollout in rollouts})
    half = set(problems[::2])
    for is_first in (True, False):
        fitted = fit.predictor(NAME, config, fit, loaded)
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


def measure_gradients(
    config: TrainConfig, policy_path: str, rollouts: Sequence[Rollout],
    advantages_NS: Sequence[np.ndarray],
) -> np.ndarray:  # fmt: skip
    """The rollouts' gradients Σ_s A_s ∇ log π(step s), sketched, [N, d].

    Scales "score_squares" so that a step's are |∇ log π(step)|² together. By logits alone steps
    that decide are made too light where the weights behind their choices move more: on
    `credit_short` 21 times ("decisive.py" of experiment 11).
    """
    loaded = load_model(policy_path, "float32", config.model.attention)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).to(device).eval()
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    softmax = Softmax(module.num_token_ids, module.softcap, config.sampling.temperature)
    sketch = CountSketch(sum(weight.numel() for weight in weights), SKETCH_SIZE, 0, device)
    rows_ND = np.zeros((len(rollouts), sketch.size), np.float32)
    with Progress(transient=True) as bar:
        for n, rollout in enumerate(bar.track(rollouts, description="gradients of steps")):
            # The module's own projection allows only one backward pass.
            hidden_TH = hidden_before_tokens(
                module.model.base_model, collate([rollout], device, ())
            )
            actions_T = np.flatnonzero(rollout.is_action_T)  # an environment's tokens have none
            ids_T1 = torch.tensor(np.array(rollout.response_ids)[actions_T], device=device)[:, None]
            logprobs_T = softmax.log(module.logits(hidden_TH)).gather(1, ids_T1)[:, 0]
            squares_T = list(rollout.tokens_T[SCORE_SQUARES])
            gain = logprobs_T.new_zeros(())
            for span, advantage in zip(rollout.spans_S, advantages_NS[n], strict=True):
                low, high = np.searchsorted(actions_T, (span.start, span.end))
                logprob = logprobs_T[low:high].sum()
                gain = gain + float(advantage) * logprob
                gradients = torch.autograd.grad(
                    logprob, weights, retain_graph=True, materialize_grads=True
                )
                length = sum(float(g.square().sum()) for g in gradients)
                factor = length / max(math.fsum(squares_T[span.start : span.end]), 1e-12)
                for t in range(span.start, span.end):
                    squares_T[t] *= factor
            rollout.tokens_T[SCORE_SQUARES] = squares_T
            gradients = torch.autograd.grad(gain, weights, materialize_grads=True)
            rows_ND[n] = sketch(torch.cat([g.flatten() for g in gradients])).cpu()
    return rows_ND


def _pass(
    config: TrainConfig, loaded: LoadedModel, fit: PredictorConfig, rollouts: Sequence[Rollout]
) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).to(device).eval()

    def scores_of(batch: TrainBatch, options: ForwardOptions) -> TokenScores:
        return TokenScores(**module(batch, options))

    def squares(scores: TokenScores) -> list[torch.Tensor]:
        assert scores.candidate_logprobs_BTK is not None, "asked for"
        sums_BT = (2 * scores.candidate_logprobs_BTK).exp().sum(-1)
        return [1 - 2 * scores.logprobs_BT.exp() + sums_BT]

    (squares_B,) = read_policy(
        rollouts, [fit.predictor(NAME, config, fit)], scores_of,
        ForwardOptions(config.sampling.temperature), squares,
        config.optimization.logprobs_micro_batch_size, device,
    )  # fmt: skip
    for rollout, squares_T in zip(rollouts, squares_B, strict=True):
        rollout.tokens_T[SCORE_SQUARES] = squares_T
