"""A run directory: everything a run leaves behind, in files that describe themselves.

    config.json  own_files.json  environment.json  metrics.jsonl  train.log
    rollouts/iter_000010.parquet  values/iter_000010.parquet  evaluations/iter_000010.json
    checkpoints/iter_000010/  final/

No file is ever seen half-written, whenever the process dies. Reading needs no torch.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from vineppo.errors import UserError
from vineppo.run_dir.config import first_difference, with_added_keys
from vineppo.run_dir.environment import record_environment
from vineppo.run_dir.files import (
    TEMPORARIES,
    append_line,
    lock,
    named_errors,
    read_json,
    strict_json,
    sync,
    write_atomic,
)
from vineppo.run_dir.tables import SCHEMAS, read_parquet, schema_of, write_parquet

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
