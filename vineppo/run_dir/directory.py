"""A run directory: everything a run leaves behind, in files that describe themselves.

    config.json  own_files.json  environment.json  metrics.jsonl  train.log
    rollouts/iter_000010.parquet  values/iter_000010.parquet  evaluations/iter_000010.json
    checkpoints/iter_000010/  final/

No file is ever seen half-written, whenever the process dies. Reading needs no torch.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from vineppo.errors import UserError
from vineppo.run_dir.config import (
    check_own_files,
    first_difference,
    record_own_files,
    with_added_keys,
)
from vineppo.run_dir.environment import record_environment
from vineppo.run_dir.files import (
    append_line,
    is_temporary,
    lock,
    named_errors,
    read_json,
    strict_json,
    sweep_temporaries,
    sync,
    write_atomic,
)
from vineppo.run_dir.tables import (
    PREDICTION_SCHEMA,
    ROLLOUT_SCHEMA,
    TURN_SCHEMA,
    VALUE_SCHEMA,
    read_parquet,
    write_parquet,
)

LOCK = ".lock"  # nothing replaces it, so that all processes lock the same file
# What a run leaves that ended before its first result.
UNSTARTED = {"config.json", "own_files.json", "environment.json", "train.log", "initial"}
SUFFIXES = {
    "rollouts": ".parquet",
    "values": ".parquet",
    "evaluations": ".json",
}


def folder_name(assignments: Sequence[str]) -> str:
    """ "a=1,b=x_y" of `--set a=1 --set b=x/y`; hashed where a file system would refuse it.

    The folder `RUN_DIR/evaluations/NAME/`. Without an assignment the name is empty: the run's own
    evaluations lie in `evaluations/` itself.
    """
    name = ",".join(assignments).replace("/", "_")
    if len(name.encode()) <= 200:
        return name
    return name[:100] + "-" + hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def read_other_evaluations(run_path: Path, iteration: int) -> dict[str, dict[str, Any]]:
    """The evaluations of an iteration under other conditions, by the names of their folders.

    Raises `UserError` naming a file that is damaged.
    """
    paths = sorted(run_path.glob(f"evaluations/*/iter_{iteration:06d}.json"))
    return {path.parent.name: read_json(path) for path in paths}


class RunDir:
    """The one writer of a run directory, and its readers.

    `iteration` counts from 1 and is 0 for the starting policy. Writing raises `UserError` where the
    system refuses (a full disk, say), reading where a file is missing or damaged.
    """

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
        own_digests: Mapping[str, str] | None = None,
    ) -> "RunDir":
        """Creates the run directory of `resolved_config`, or reopens it to resume.

        `own_digests` are the SHA-256 of the user's own files that the config names, by path.
        Reopening removes half-written files, and adds a changed environment to `resumed` in
        environment.json. Another config takes over a run that failed before its first result, so
        that a mistake can be fixed. Raises `UserError` for a directory that is no run, holds
        another config (naming the first key that differs), cannot be written, or is open in another
        process; and for an own file that has changed.
        """
        run_dir = cls(path)
        with named_errors("create", run_dir.path):
            run_dir.path.mkdir(parents=True, exist_ok=True)
        config, digests = json.loads(strict_json(resolved_config)), own_digests or {}
        run_dir.check(config, digests)  # what it refuses is left as it is
        run_dir._lock = lock(run_dir.path / LOCK)
        if not run_dir.check(config, digests):
            shutil.rmtree(run_dir.path / "initial", ignore_errors=True)
            write_atomic(run_dir.config_path, strict_json(config, indent=2))
            run_dir.environment_path.unlink(missing_ok=True)
        sweep_temporaries(run_dir.path, *(run_dir.path / kind for kind in SUFFIXES))
        record_own_files(run_dir.path, digests)
        record_environment(run_dir.environment_path)
        return run_dir

    def check(self, resolved_config: dict[str, Any], own_digests: Mapping[str, str]) -> bool:
        """True if the directory holds a run of this config; False to start one.

        Writes nothing. Raises `UserError` where `open` refuses the directory for what it holds.
        """
        entries = self._entries()
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
        if not is_unstarted:
            check_own_files(self.path, own_digests)
        return difference is None

    def _entries(self) -> set[str]:
        if not self.path.is_dir():
            return set()
        with named_errors("read", self.path):
            names = {entry.name for entry in self.path.iterdir() if not is_temporary(entry)}
            return names - {LOCK}

    def read_config(self) -> dict[str, Any]:
        """The resolved config, with the keys that were added since."""
        return with_added_keys(read_json(self.config_path))

    def read_environment(self) -> dict[str, Any]:
        return read_json(self.environment_path)

    def append_metrics(self, metrics: dict[str, Any]) -> None:
        """Adds the line of one iteration; it is on the disk when this returns.

        A full disk leaves the file as it was (`UserError`).
        """
        line = {"iteration": metrics["iteration"], **metrics}
        append_line(self.metrics_path, strict_json(line))

    def read_metrics(self) -> list[dict[str, Any]]:
        """One flat dict per iteration, in order; a number that was not finite is None.

        Half a last line is left out; without a file there are none. Raises `UserError` for a file
        that cannot be read and for a line that is not of an iteration.
        """
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
        """Writes the rows of `tables.rollout_rows`."""
        schema = TURN_SCHEMA if rows and "turn_ends" in rows[0] else ROLLOUT_SCHEMA
        write_parquet(self._file("rollouts", iteration), rows, schema)

    def write_values(self, iteration: int, rows: Sequence[dict[str, Any]]) -> None:
        """Writes the rows of `tables.value_rows`."""
        schema = PREDICTION_SCHEMA if rows and "predictor" in rows[0] else VALUE_SCHEMA
        write_parquet(self._file("values", iteration), rows, schema)

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
        names = [path.name for path in (self.path / kind).glob(f"iter_*{SUFFIXES[kind]}")]
        numbers = [name.removeprefix("iter_").removesuffix(SUFFIXES[kind]) for name in names]
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
