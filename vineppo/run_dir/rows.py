"""The rows of a run directory's parquet tables, built from the rollouts' records."""

from collections.abc import Sequence
from typing import Any

from vineppo.types import CRITIC, MONTE_CARLO, Rollout


def rollout_rows(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
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
            "step_starts": [
                span.start
                for span, _ in zip(rollout.spans_S, rollout.steps_S["advantages"], strict=True)
            ],
            "advantages_S": rollout.steps_S["advantages"],
        }
        for rollout in rollouts
    ]


def value_rows(rollouts: Sequence[Rollout], predictors: Sequence[str]) -> list[dict[str, Any]]:
    """One row per estimated state; the columns are those of `tables.VALUE_SCHEMA`.

    State i of a rollout is the prompt and the first `prefix_length` tokens of the response, those
    before step i, so state 0 has `prefix_length` 0. `returns_K` is empty without Monte-Carlo
    values, and `critic_value`, the critic's value of that state, null without a critic. Every other
    predictor has a further row a state, with its name and value (`tables.PREDICTION_SCHEMA`).
    """
    further = [name for name in predictors if name not in (MONTE_CARLO, CRITIC)]
    rows = []
    for rollout in rollouts:
        returns_S = rollout.returns_S.get(MONTE_CARLO)
        critic_S = rollout.values_S(CRITIC) if CRITIC in predictors else None
        for step_index, span in enumerate(rollout.spans_S):
            state = {
                "problem_id": rollout.problem.id,
                "rollout_index": rollout.rollout_index,
                "step_index": step_index,
                "prefix_length": span.start,
            }
            returns = returns_S[step_index] if returns_S else None
            row = {
                "returns_K": returns.returns_K if returns else (),
                "num_tokens": returns.num_tokens if returns else 0,
                "critic_value": critic_S[step_index] if critic_S else None,
            }
            if not further:
                rows.append(state | row)
                continue
            rows.append(state | row | {"predictor": None, "value": None})
            for name in further:
                own = rollout.returns_S.get(name)
                tokens_S = rollout.steps_S.get(f"tokens/{name}")
                num_tokens = tokens_S[step_index] if tokens_S else 0
                rows.append(
                    state
                    | {
                        "returns_K": own[step_index].returns_K if own else (),
                        "num_tokens": own[step_index].num_tokens if own else num_tokens,
                        "critic_value": None,
                        "predictor": name,
                        "value": rollout.values_S(name)[step_index],
                    }
                )
    return rows
