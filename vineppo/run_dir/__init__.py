"""A run directory: everything a run leaves behind, in files that describe themselves.

    config.json  own_files.json  environment.json  metrics.jsonl  train.log
    rollouts/iter_000010.parquet  values/iter_000010.parquet  evaluations/iter_000010.json
    checkpoints/iter_000010/  final/

No file is ever seen half-written, whenever the process dies. Reading needs no torch.
"""

import fcntl
import json
import logging
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from vineppo.errors import UserError
from vineppo.run_dir.config import first_difference, with_added_keys

logger = logging.getLogger(__name__)

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
TEMPORARY_SUFFIX = ".vineppo-tmp"
TEMPORARIES = f".*{TEMPORARY_SUFFIX}"  # the files that a killed `write_atomic` leaves half-written
LOCK = ".lock"  # nothing replaces it, so that all processes lock the same file
USER_FILES = "own_files.json"
# A run that ended before its first result leaves these.
UNSTARTED = {"config.json", USER_FILES, "environment.json", "train.log", "initial"}
SUFFIXES = dict.fromkeys(SCHEMAS, ".parquet") | {"evaluations": ".json"}


class RunDir:
    """The one writer of a run directory, and its readers; iteration 0 is the starting policy."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.json"
        self.environment_path = self.path / "environment.json"
        self.metrics_path = self.path / "metrics.jsonl"
        self.checkpoints_path = self.path / "checkpoints"
        self.final_path = self.path / "final"
        self._lock: BinaryIO | None = None

    @classmethod
    def open(
        cls,
        path: Path | str,
        resolved_config: dict[str, Any],
        user_digests: Mapping[str, str] | None = None,
    ) -> "RunDir":
        """Creates the run directory of `resolved_config`, or reopens it to resume.

        `user_digests` are the SHA-256 of the user's files that the config names, by path. Another
        config takes over a run that failed before its first result. Raises `UserError` as `check`
        does, for a path that cannot be written, and for a run that another process has open.
        """
        from vineppo.run_dir.environment import record_environment  # it writes by this module

        run_dir, digests = cls(path), user_digests or {}
        with named_errors("create", run_dir.path):
            run_dir.path.mkdir(parents=True, exist_ok=True)
        config = json.loads(strict_json(resolved_config))
        run_dir.check(config, digests)  # what it refuses is left as it is
        run_dir._lock = lock(run_dir.path / LOCK)
        if run_dir.final_path.is_dir():
            raise UserError(f"{run_dir.path} was finished by another process meanwhile")
        if not run_dir.check(config, digests):
            shutil.rmtree(run_dir.path / "initial", ignore_errors=True)
            write_atomic(run_dir.config_path, strict_json(config, indent=2))
            run_dir.environment_path.unlink(missing_ok=True)
        for directory in (run_dir.path, *(run_dir.path / kind for kind in SUFFIXES)):
            for leftover in directory.glob(TEMPORARIES):
                leftover.unlink(missing_ok=True)
        if digests:
            write_atomic(run_dir.path / USER_FILES, strict_json({"sha256": digests}, indent=2))
        else:
            (run_dir.path / USER_FILES).unlink(missing_ok=True)
        record_environment(run_dir.environment_path)
        return run_dir

    def check(self, resolved_config: dict[str, Any], user_digests: Mapping[str, str]) -> bool:
        """True if the directory holds a run of this config; False to start one. Writes nothing.

        Raises `UserError` for what is no run or another config's, and for changed user's files.
        """
        entries: set[str] = set()
        if self.path.is_dir():
            with named_errors("read", self.path):
                entries = {x.name for x in self.path.iterdir() if not x.match(TEMPORARIES)} - {LOCK}
        if not entries:
            return False
        if "config.json" not in entries:
            raise UserError(f"{self.path} is not empty and holds no run (no config.json)")
        is_unstarted = entries <= UNSTARTED
        config = with_added_keys(json.loads(strict_json(resolved_config)))
        difference = first_difference(self.read_config(), config)
        if difference and not (is_unstarted and "environment.json" in entries):
            key, there, here = difference
            raise UserError(
                f"{self.path} holds a run of another config: {key} is {there} there, {here} here; "
                "give another --run-dir"
            )
        if not is_unstarted and USER_FILES in entries:
            known = read_json(self.path / USER_FILES)["sha256"]
            for file, digest in user_digests.items():
                if known.get(file) != digest:
                    raise UserError(
                        f"{file} has changed since the run in {self.path} began: undo the change "
                        "or give another --run-dir"
                    )
        return difference is None

    def read_config(self) -> dict[str, Any]:
        """The resolved config, with the keys that were added since."""
        return with_added_keys(read_json(self.config_path))

    def read_environment(self) -> dict[str, Any]:
        return read_json(self.environment_path)

    def append_metrics(self, metrics: dict[str, Any]) -> None:
        """Adds the line of one iteration; it is on the disk when this returns."""
        append_line(self.metrics_path, strict_json(metrics))

    def read_metrics(self) -> list[dict[str, Any]]:
        """One flat dict per iteration, in order, without half a last line; not finite is None."""
        return [row for _, row in self._metrics()]

    def last_logged_iteration(self) -> int:
        """0 before the first."""
        return max((row["iteration"] for _, row in self._metrics()), default=0)

    def _metrics(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """One iteration after another, with the byte that its line ends at."""
        if not self.metrics_path.exists():
            return
        end = 0
        with named_errors("read", self.metrics_path), self.metrics_path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                end += len(line)
                try:
                    row = json.loads(line)
                    int(row["iteration"])
                except (ValueError, TypeError, KeyError):
                    raise UserError(
                        f"{self.metrics_path}, line {number} must be the metrics of an iteration"
                    ) from None
                yield end, row

    def write_rollouts(self, iteration: int, rows: Sequence[dict[str, Any]]) -> None:
        write_parquet(self._file("rollouts", iteration), rows, schema_of("rollouts", rows))

    def write_values(self, iteration: int, rows: Sequence[dict[str, Any]]) -> None:
        write_parquet(self._file("values", iteration), rows, schema_of("values", rows))

    def write_evaluation(self, iteration: int, evaluation: dict[str, Any]) -> None:
        """Writes `{"pass@1": …, "num_problems": …, "samples_per_problem": …, …}`."""
        write_atomic(self._file("evaluations", iteration), strict_json(evaluation, indent=2))

    def read_rollouts(
        self, iteration: int, columns: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        return read_parquet(self._file("rollouts", iteration), columns)

    def read_values(self, iteration: int) -> list[dict[str, Any]]:
        return read_parquet(self._file("values", iteration))

    def read_evaluation(self, iteration: int) -> dict[str, Any]:
        return read_json(self._file("evaluations", iteration))

    def iterations(self, kind: str) -> list[int]:
        """The iterations that have a file in `kind` (rollouts, values, evaluations), ascending."""
        files = (self.path / kind).glob(f"iter_*{SUFFIXES[kind]}")
        numbers = [file.stem.removeprefix("iter_") for file in files]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def discard_after(self, iteration: int) -> None:
        """Removes what a crash left of later iterations, and half a line of metrics."""
        for kind in SUFFIXES:
            for later in self.iterations(kind):
                if later > iteration:
                    self._file(kind, later).unlink()
        kept = [end for end, row in self._metrics() if row["iteration"] <= iteration]
        if self.metrics_path.exists():
            with named_errors("write", self.metrics_path):
                os.truncate(self.metrics_path, kept[-1] if kept else 0)
                sync(self.metrics_path)

    def checkpoint_path(self, iteration: int) -> Path:
        return self.checkpoints_path / f"iter_{iteration:06d}"

    def _file(self, kind: str, iteration: int) -> Path:
        return self.path / kind / f"iter_{iteration:06d}{SUFFIXES[kind]}"


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


def write_atomic(path: Path, content: bytes) -> None:
    """Writes `content` to `path` in one visible step: a temporary file, then a rename.

    The file is on the disk when this returns. Creates the parent directory. Raises `UserError` with
    the system's reason and the path, for a full disk, say.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    with named_errors("write", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync(path.parent)


@contextmanager
def named_errors(verb: str, path: Path) -> Iterator[None]:
    """Turns the system's refusals into a `UserError`: `cannot write runs/x: Permission denied`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot {verb} {path}: {error.strerror or error}") from error


def sync(path: Path) -> None:
    """Waits until a file, or the entries of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path) -> BinaryIO:
    """Creates `path` and holds it until this process ends; `UserError` while another does.

    Without locks in the file system (NFS without lockd) the run continues, and says so.
    """
    with named_errors("write", path):
        file = path.open("ab")  # NFS grants an exclusive lock to a writer alone
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{path.parent} is in use by another process") from None
    except OSError as error:
        warning = f"cannot be locked ({error.strerror}): start no second process on it"
        logger.warning(f"vineppo: {path.parent} {warning}")
    return file


def append_line(path: Path, line: bytes) -> None:
    """Writes the whole line or, where the disk is full, nothing (`UserError`)."""
    with named_errors("write", path), path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
            if size == 0:
                sync(path.parent)  # the entry of a new file
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise


def strict_json(data: Any, indent: int | None = None) -> bytes:
    """`data` as a line of JSON; NaN and the infinities, which JSON lacks, become null.

    >>> strict_json({"reward/mean": float("nan"), "kl": [0.5]})
    b'{"reward/mean": null, "kl": [0.5]}\\n'
    """

    def finite(data: Any) -> Any:
        if isinstance(data, float):
            return data if math.isfinite(data) else None
        if isinstance(data, dict):
            return {key: finite(value) for key, value in data.items()}
        return [finite(value) for value in data] if isinstance(data, list | tuple) else data

    return json.dumps(finite(data), indent=indent, allow_nan=False).encode() + b"\n"


def read_json(path: Path) -> dict[str, Any]:
    """Raises `UserError` for a file that cannot be read, is damaged, or holds no JSON object."""
    with named_errors("read", path):
        content = path.read_bytes()
    try:
        parsed = json.loads(content)
    except ValueError as error:
        raise UserError(f"{path} is no JSON file: {error}") from None
    if not isinstance(parsed, dict):
        raise UserError(f"{path} holds no JSON object")
    return parsed
