"""The rows of a run directory's parquet tables, built from the project's types."""

from collections.abc import Sequence
from typing import Any

from vineppo.types import Rollout, StateValue, StepSpan


def rollout_rows(
    rollouts_B: Sequence[Rollout],
    spans_BS: Sequence[Sequence[StepSpan]],
    advantages_BS: Sequence[Sequence[float]],
) -> list[dict[str, Any]]:
    """One row per rollout; the columns are those of `tables.ROLLOUT_SCHEMA`.

    `step_starts` are the first tokens of the steps, counted in the response: spans (0, 3), (3, 5)
    give [0, 3]; the last step ends with `response_ids`. `advantages_S` are raw, one per step.
    Raises `ValueError` when a rollout's steps and advantages differ in number.
    """
    return [
        {
            "problem_id": rollout.problem.id,
            "rollout_index": rollout.rollout_index,
            "prompt_ids": rollout.prompt_ids,
            "response_ids": rollout.response_ids,
            "logprobs": rollout.logprobs_T,
            "text": rollout.text,
            "reward": rollout.reward,
            "finish_reason": rollout.finish_reason,
            "step_starts": [span.start for span, _ in zip(spans_S, advantages_S, strict=True)],
            "advantages_S": advantages_S,
        }
        for rollout, spans_S, advantages_S in zip(rollouts_B, spans_BS, advantages_BS, strict=True)
    ]


def value_rows(
    rollouts_B: Sequence[Rollout],
    spans_BS: Sequence[Sequence[StepSpan]],
    values_BS: Sequence[Sequence[StateValue]] | None,
    critic_values_BT: Sequence[Sequence[float]] | None,
) -> list[dict[str, Any]]:
    """One row per estimated state; the columns are those of `tables.VALUE_SCHEMA`.

    State i of a rollout is the prompt and the first `prefix_length` tokens of the response, those
    before step i, so state 0 has `prefix_length` 0. `returns_K` is empty without Monte-Carlo
    values, and `critic_value`, the critic's value of that state, null without a critic.
    """
    rows = []
    for i, (rollout, spans_S) in enumerate(zip(rollouts_B, spans_BS, strict=True)):
        nothing = [StateValue((), 0) for _ in spans_S]
        values_S = nothing if values_BS is None else values_BS[i]
        for step_index, (span, value) in enumerate(zip(spans_S, values_S, strict=True)):
            critic_value = None if critic_values_BT is None else critic_values_BT[i][span.start]
            rows.append(
                {
                    "problem_id": rollout.problem.id,
                    "rollout_index": rollout.rollout_index,
                    "step_index": step_index,
                    "prefix_length": span.start,
                    "returns_K": value.returns_K,
                    "num_tokens": value.num_tokens,
                    "critic_value": critic_value,
                }
            )
    return rows
