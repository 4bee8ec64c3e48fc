"""The parquet tables of a run directory: their columns, and their rows from the rollouts."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vineppo.errors import UserError
from vineppo.run_dir.files import named_errors, write_atomic
from vineppo.types import CRITIC, MONTE_CARLO, Rollout

# One row per rollout. Token positions in step_starts count from the start of the response.
ROLLOUT_SCHEMA = pa.schema(
    {
        "problem_id": pa.string(),
        "rollout_index": pa.int32(),
        "prompt_ids": pa.list_(pa.int32()),
        "response_ids": pa.list_(pa.int32()),
        "logprobs": pa.list_(pa.float32()),
        "text": pa.string(),
        "reward": pa.float32(),
        "finish_reason": pa.string(),
        "step_starts": pa.list_(pa.int32()),
        "advantages_S": pa.list_(pa.float32()),
    }
)
# The turns (`types.Turn`) of runs with an environment: turns begin where steps do.
TURNS = {"turn_ends": pa.int32(), "turn_states": pa.string(), "turn_rewards": pa.float32()}
TURN_COLUMNS = pa.schema({name: pa.list_(kind) for name, kind in TURNS.items()})
# One row per estimated state; its prefix is the prompt and prefix_length tokens of the response.
VALUE_SCHEMA = pa.schema(
    {
        "problem_id": pa.string(),
        "rollout_index": pa.int32(),
        "step_index": pa.int32(),
        "prefix_length": pa.int32(),
        "returns_K": pa.list_(pa.float32()),
        "num_tokens": pa.int32(),
        "critic_value": pa.float32(),
    }
)
# Runs with further predictors: the rows above have null here, and each other predictor has a row of
# its own for every state.
PREDICTION_COLUMNS = pa.schema({"predictor": pa.string(), "value": pa.float32()})
# The schemas that a kind of table may have, the plain one first.
SCHEMAS = {
    "rollouts": (ROLLOUT_SCHEMA, pa.unify_schemas([ROLLOUT_SCHEMA, TURN_COLUMNS])),
    "values": (VALUE_SCHEMA, pa.unify_schemas([VALUE_SCHEMA, PREDICTION_COLUMNS])),
}


def rollout_rows(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """One row per rollout; `step_starts` count in the response, `advantages_S` are raw."""
    rows = []
    for rollout in rollouts:
        assert len(rollout.steps_S["advantages"]) == len(rollout.spans_S), "one advantage a step"
        row = {
            "problem_id": rollout.problem.id,
            "rollout_index": rollout.rollout_index,
            "prompt_ids": rollout.prompt_ids,
            "response_ids": rollout.response_ids,
            "logprobs": rollout.logprobs_T,
            "text": rollout.text,
            "reward": rollout.reward,
            "finish_reason": rollout.finish_reason,
            "step_starts": [span.start for span in rollout.spans_S],
            "advantages_S": rollout.steps_S["advantages"],
        }
        if rollout.turns:
            turns = ((turn.end, turn.state, turn.reward) for turn in rollout.turns)
            row |= dict(zip(TURN_COLUMNS.names, zip(*turns, strict=True), strict=True))
        rows.append(row)
    return rows


def value_rows(rollouts: Sequence[Rollout], predictors: Sequence[str]) -> list[dict[str, Any]]:
    """One row per estimated state, and a further one for every predictor besides MC and critic.

    `returns_K` is empty where Monte-Carlo values left the state out, `critic_value` null without a
    critic, and the other predictors' `value` null for a state left out.
    """
    further = [name for name in predictors if name not in (MONTE_CARLO, CRITIC)]
    no_prediction = {"predictor": None, "value": None} if further else {}
    rows = []
    for rollout in rollouts:
        values = {name: rollout.values_S(name) for name in predictors if name != MONTE_CARLO}
        for step, span in enumerate(rollout.spans_S):
            state = {
                "problem_id": rollout.problem.id,
                "rollout_index": rollout.rollout_index,
                "step_index": step,
                "prefix_length": span.start,
                "critic_value": None,
            }
            critic = {"critic_value": values[CRITIC][step]} if CRITIC in values else {}
            rows.append(state | _returns(rollout, MONTE_CARLO, step) | critic | no_prediction)
            for name in further:
                value = values[name][step]
                prediction = {"predictor": name, "value": None if math.isnan(value) else value}
                rows.append(state | _returns(rollout, name, step) | prediction)
    return rows


def _returns(rollout: Rollout, predictor: str, step: int) -> dict[str, Any]:
    """The continuations of a state, or what the engine wrote for it besides."""
    if not rollout.returns_S.get(predictor):
        tokens_S = rollout.steps_S.get(f"tokens/{predictor}")
        return {"returns_K": (), "num_tokens": tokens_S[step] if tokens_S else 0}
    state = rollout.returns_S[predictor][step]
    return {"returns_K": state.returns_K, "num_tokens": state.num_tokens}


def schema_of(kind: str, rows: Sequence[dict[str, Any]]) -> pa.Schema:
    """The schema of `kind` with the columns of `rows`, or else the plain one."""
    names = rows[0].keys() if rows else ()
    return next((one for one in SCHEMAS[kind] if set(one.names) == names), SCHEMAS[kind][0])


def write_parquet(path: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> None:
    """Writes `rows`; their keys must be the columns of `schema` (`ValueError`)."""
    for row in rows:  # pyarrow fills a missing column with nulls, and drops an unknown one
        if row.keys() != set(schema.names):
            raise ValueError(f"{path.name}: columns must be {schema.names}, got {list(row)}")
    buffer = pa.BufferOutputStream()
    table = pa.Table.from_pylist(list(rows), schema)
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    write_atomic(path, buffer.getvalue().to_pybytes())


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a table; `UserError` for a file that is missing, cut off or altered."""
    with named_errors("read", path):
        content = path.read_bytes()
    chosen = None if columns is None else list(columns)
    try:
        source = pa.BufferReader(content)
        table = pq.read_table(source, columns=chosen, page_checksum_verification=True)
        return table.to_pylist()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is no complete parquet file: {reason}") from None
