"""Between the tokens of a response and its steps."""

from collections.abc import Sequence

from vineppo.types import StepSpan


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
