"""The parquet tables of a run directory. Written whole or not at all; reading needs no torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vineppo.errors import UserError
from vineppo.run_dir.files import named_errors, write_atomic

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
# In runs with further predictors: the rows above have null here, and each of the others has a row
# of its own for every state.
PREDICTION_SCHEMA = pa.unify_schemas(
    [VALUE_SCHEMA, pa.schema({"predictor": pa.string(), "value": pa.float32()})]
)

# One row per bin of the response and outcome; see `vineppo/value_diagnostics.py`.
DIAGNOSTICS_SCHEMA = pa.schema(
    {
        "axis": pa.string(),
        "bin": pa.int32(),
        "is_correct": pa.bool_(),
        "count": pa.int32(),
        "values": pa.list_(pa.float32()),
        "returns": pa.list_(pa.float32()),
        "advantages": pa.list_(pa.float32()),
        "explained_variance": pa.float32(),
    }
)


def write_parquet(path: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> None:
    """Writes `rows`, whose keys must be the columns of `schema` (`ValueError`)."""
    for row in rows:
        # pyarrow fills a missing column with nulls and drops an unknown one without a word.
        if row.keys() != set(schema.names):
            raise ValueError(f"{path.name}: columns must be {schema.names}, got {list(row)}")
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), buffer, compression="zstd")
    write_atomic(path, buffer.getvalue().to_pybytes())


def read_parquet(path: Path) -> list[dict[str, Any]]:
    """The rows of a table. Raises `UserError` for a file that is missing or not whole."""
    with named_errors("read", path):
        content = path.read_bytes()
    try:
        return pq.read_table(pa.BufferReader(content)).to_pylist()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is no complete parquet file: {reason}") from None
