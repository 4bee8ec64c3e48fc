"""Tables of sampled responses with their KL to the starting policy, one a run and checkpoint.

`OUT/kl_samples/<run>/iter_000010.parquet`, and what it was made with beside it. Needs no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from analysis.run_tables import read_rows, table_path
from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate, bootstrap_sums, ratio
from vineppo.run_dir.tables import write_parquet

FOLDER = "kl_samples"
NUM_RESAMPLES = 2000
# One row per response.
SAMPLE_SCHEMA = pa.schema(
    {
        "problem_id": pa.string(),
        "sample_index": pa.int32(),
        "num_tokens": pa.int32(),
        "kl": pa.float64(),
        "reward": pa.float32(),
        "is_truncated": pa.bool_(),
    }
)


@dataclass(frozen=True)
class KlSample:
    """A response of a checkpoint; `kl` is the sum of its tokens' exact KL, in nats."""

    problem_id: str
    sample_index: int
    num_tokens: int
    kl: float
    reward: float
    is_truncated: bool


def samples_path(out: Path, run_path: Path, checkpoint: int) -> Path:
    """Where the table of a run's checkpoint is, or goes, under the folder `out`."""
    return table_path(out, FOLDER, run_path, checkpoint)


def write_samples(path: Path, samples: Sequence[KlSample]) -> None:
    write_parquet(path, [vars(sample) for sample in samples], SAMPLE_SCHEMA)


def read_samples(path: Path) -> list[KlSample]:
    """Raises `UserError` for a file that is missing, damaged, empty or of other columns."""
    return [KlSample(**row) for row in read_rows(path, SAMPLE_SCHEMA, "response")]


def estimates(samples: Sequence[KlSample]) -> dict[str, Estimate]:
    """kl_per_token, kl_per_sequence and sample_pass_at_1, intervals clustered on problems.

    Σ kl/Σ tokens and the mean of kl over responses: Monte-Carlo means over sequences of sums that
    are exact over the vocabulary. Responses of 2 and 4 tokens with 1 and 2 nats: 0.5 nats a token,
    1.5 a response. A response is right when its reward is above 0.5, as in an evaluation.
    """
    terms = {
        "one": np.ones(len(samples)),
        "kl": np.array([sample.kl for sample in samples]),
        "tokens": np.array([sample.num_tokens for sample in samples], float),
        "correct": np.array([sample.reward > 0.5 for sample in samples], float),
    }
    return bootstrap_sums(
        terms,
        [sample.problem_id for sample in samples],
        {
            "kl_per_token": lambda sums: ratio(sums["kl"], sums["tokens"]),
            "kl_per_sequence": lambda sums: ratio(sums["kl"], sums["one"]),
            "sample_pass_at_1": lambda sums: ratio(sums["correct"], sums["one"]),
        },
        np.random.default_rng(BOOTSTRAP_SEED),
        num_resamples=NUM_RESAMPLES,
        level=LEVEL,
    )
