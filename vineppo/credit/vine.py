"""Steps, and VinePPO's advantage: a difference of their values (arXiv:2410.01679, section 4)."""

from collections.abc import Sequence

from vineppo.config.schema import VineCredit
from vineppo.types import Rollout, StepSpan


def vine_advantages(values_S: Sequence[float], reward: float) -> list[float]:
    """A_i = V̂(s_{i+1}) − V̂(s_i) for the S steps, with V̂(s_S) = `reward` exactly.

    `values_S[i]` is the value of the state before step i, in the paper a Monte-Carlo one. The
    paper's γ = 1 is built in: a discount would have to enter the continuations' returns as well.
    The advantages sum to reward − values_S[0]. Values [0.5, 0.25] and reward 1 → [−0.25, 0.75].
    """
    after_S = [*values_S[1:], reward]
    return [after - before for before, after in zip(values_S, after_S, strict=True)]


def vine_credit(
    config: VineCredit,  # noqa: ARG001 (its keys decided what was sampled)
    rollouts_G: Sequence[Rollout],
) -> list[list[float]]:
    """`vine_advantages` of every rollout, each step's on all its tokens; the reward is Σ rewards_T.

    A KL penalty shaped into `rewards_T` enters the last difference only: V̂ holds none of it. Values
    [0.5, 0.25] before steps of 2 and 1 tokens, reward 1 → [−0.25, −0.25, 0.75].
    """
    return [
        broadcast(vine_advantages(rollout.state_values_S, sum(rollout.rewards_T)), rollout.spans_S)
        for rollout in rollouts_G
    ]


def broadcast(advantages_S: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """Every step's advantage on each of its tokens.

    `broadcast([0.5, -1.0], [StepSpan(0, 2), StepSpan(2, 3)]) = [0.5, 0.5, -1.0]`.
    """
    return [
        advantage
        for advantage, span in zip(advantages_S, spans_S, strict=True)
        for _ in range(span.start, span.end)
    ]


def step_means(advantages_T: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """The mean over each step's tokens, the inverse of `broadcast` up to rounding.

    `step_means([0.5, 0.0, -1.0], [StepSpan(0, 2), StepSpan(2, 3)]) = [0.25, -1.0]`.
    """
    return [
        total / (span.end - span.start)
        for total, span in zip(step_sums(advantages_T, spans_S), spans_S, strict=True)
    ]


def step_sums(rewards_T: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """The sum over each step's tokens.

    `step_sums([0.5, 0.0, -1.0], [StepSpan(0, 2), StepSpan(2, 3)]) = [0.5, -1.0]`.
    """
    return [sum(rewards_T[span.start : span.end]) for span in spans_S]
