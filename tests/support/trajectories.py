"""Trajectories for the estimators: what is not given is None, or without effect."""

from collections.abc import Sequence

from vineppo.types import StepSpan, Trajectory


def trajectory(
    rewards_T: Sequence[float],
    critic_values_T: Sequence[float] | None = None,
    state_values_S: Sequence[float] | None = None,
    lengths_S: Sequence[int] | None = None,
    logprobs_T: Sequence[float] | None = None,
    greedy_reward: float | None = None,
) -> Trajectory:
    """Steps of `lengths_S` tokens; one step if not given."""
    length = len(rewards_T)
    return Trajectory(
        rewards_T=tuple(rewards_T),
        logprobs_T=(-0.5,) * length if logprobs_T is None else tuple(logprobs_T),
        spans_S=spans(lengths_S if lengths_S is not None else [length]),
        state_values_S=None if state_values_S is None else tuple(state_values_S),
        critic_values_T=None if critic_values_T is None else tuple(critic_values_T),
        greedy_reward=greedy_reward,
    )


def spans(lengths_S: Sequence[int]) -> tuple[StepSpan, ...]:
    starts_S = [sum(lengths_S[:i]) for i in range(len(lengths_S))]
    return tuple(StepSpan(i, i + n) for i, n in zip(starts_S, lengths_S, strict=True))


def terminal(reward: float, length: int) -> list[float]:
    """The reward on the last of `length` tokens."""
    return [0.0] * (length - 1) + [reward]
