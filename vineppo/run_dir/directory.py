"""A run directory: everything a run leaves behind, in files that describe themselves.

    config.json  own_files.json  environment.json  metrics.jsonl  train.log
    rollouts/iter_000010.parquet  values/iter_000010.parquet  evaluations/iter_000010.json
    value_diagnostics/iter_000010.parquet
    checkpoints/iter_000010/  final/

No file is ever seen half-written, whenever the process dies. Reading needs no torch.
"""

import errno
import fcntl
import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from vineppo.errors import UserError
from vineppo.run_dir.files import (
    MetricsLog,
    is_temporary,
    named_errors,
    read_json,
    strict_json,
    sweep_temporaries,
    write_atomic,
)
from vineppo.run_dir.older import with_added_keys
from vineppo.run_dir.tables import (
    DIAGNOSTICS_SCHEMA,
    PREDICTION_SCHEMA,
    ROLLOUT_SCHEMA,
    VALUE_SCHEMA,
    read_parquet,
    write_parquet,
)


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


NAME = "own_files.json"


def record_own_files(run_path: Path, digests: Mapping[str, str]) -> None:
    """Writes the SHA-256 of each file by its path; without a file nothing is left."""
    if digests:
        write_atomic(run_path / NAME, strict_json({"sha256": digests}, indent=2))
    else:
        (run_path / NAME).unlink(missing_ok=True)


def check_own_files(run_path: Path, digests: Mapping[str, str]) -> None:
    """Raises `UserError` naming a file that is another than when the run began."""
    if not (run_path / NAME).exists():
        return  # no own files, or a run older than their record
    there = read_json(run_path / NAME)["sha256"]
    for file, digest in digests.items():
        if there.get(file) != digest:
            raise UserError(
                f"{file} has changed since the run in {run_path} began ({NAME} there has its "
                "SHA-256): undo the change, or give the run another directory"
            )


logger = logging.getLogger(__name__)

# What flock says where a file system has no locks (Lustre without -o flock, NFS without lockd).
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}


def lock(path: Path) -> BinaryIO:
    """Holds the directory of `path` until the file is closed or this process ends, however it ends.

    Raises `UserError` while another process holds it. Where the file system has no locks the run
    goes on without one, and says so.
    """
    with named_errors("write", path):
        file = path.open("r+b")  # NFS grants an exclusive lock to a writer alone
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{path.parent} is in use by another process") from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        reason = error.strerror
        logger.warning(
            f"vineppo: {path.parent} cannot be locked ({reason}): start no second process on it"
        )
    return file


# What a run leaves that ended before its first result.
UNSTARTED = {"config.json", "own_files.json", "environment.json", "train.log", "initial"}
SUFFIXES = {
    "rollouts": ".parquet",
    "values": ".parquet",
    "value_diagnostics": ".parquet",
    "evaluations": ".json",
}


class RunDir:
    """The one writer of a run directory, and its readers.

    `iteration` counts from 1 and is 0 for the starting policy. Writing raises `UserError` where the
    system refuses (a full disk, say), reading where a file is missing or damaged.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.json"
        self.environment_path = self.path / "environment.json"
        self.log_path = self.path / "train.log"
        self.checkpoints_path = self.path / "checkpoints"
        self.final_path = self.path / "final"
        self._metrics = MetricsLog(self.path / "metrics.jsonl")
        self._lock: BinaryIO | None = None

    @classmethod
    def open(
        cls,
        path: Path | str,
        resolved_config: dict[str, Any],
        own_digests: Mapping[str, str] | None = None,
    ) -> "RunDir":
        """Creates the run directory of `resolved_config`, or re-opens it to go on.

        `own_digests` are the SHA-256 of the user's own files that the config names, by path.
        Re-opening sweeps away what a crash left half-written, and adds the environment to the
        list `resumed` of environment.json where it is another than before. Raises `UserError` for a
        directory that holds another config (naming the first key that differs) or something else
        than a run, for a path that cannot be written, where one of the own files has changed since,
        and while another process has it open.
        """
        run_dir = cls(path)
        with named_errors("create", run_dir.path):
            run_dir.path.mkdir(parents=True, exist_ok=True)
            is_empty = all(is_temporary(entry) for entry in run_dir.path.iterdir())
        config = json.loads(strict_json(resolved_config))
        if run_dir.config_path.exists():
            there = with_added_keys(run_dir.read_config())
            difference = first_difference(there, with_added_keys(config))
            if difference is not None:
                run_dir._start_over(config, difference)
        elif is_empty:
            write_atomic(run_dir.config_path, strict_json(resolved_config, indent=2))
        else:
            raise UserError(f"{run_dir.path} is not empty and holds no run (no config.json)")
        if not run_dir._entries() <= UNSTARTED:
            check_own_files(run_dir.path, own_digests or {})
        run_dir._lock = lock(run_dir.config_path)
        sweep_temporaries(run_dir.path, *(run_dir.path / kind for kind in SUFFIXES))
        record_own_files(run_dir.path, own_digests or {})
        _record_environment(run_dir)
        return run_dir

    def _start_over(self, config: dict[str, Any], difference: tuple[str, Any, Any]) -> None:
        """Takes over a run that failed before its first result, so that a mistake can be mended.

        Raises `UserError` naming the `difference` for a directory that holds anything more.
        """
        entries = self._entries()
        if "environment.json" not in entries or not entries <= UNSTARTED:
            key, there, here = difference
            raise UserError(
                f"{self.path} holds a run of another config: {key} is {there} there, {here} here; "
                "give another --run-dir"
            )
        self._lock = lock(self.config_path)
        shutil.rmtree(self.path / "initial", ignore_errors=True)
        self.environment_path.unlink()
        write_atomic(self.config_path, strict_json(config, indent=2))

    def _entries(self) -> set[str]:
        return {entry.name for entry in self.path.iterdir() if not is_temporary(entry)}

    def read_config(self) -> dict[str, Any]:
        return read_json(self.config_path)

    def read_environment(self) -> dict[str, Any]:
        return read_json(self.environment_path)

    def append_metrics(self, metrics: dict[str, Any]) -> None:
        """Adds the line of `metrics["iteration"]`, which must be greater than all before."""
        self._metrics.append(metrics)

    def read_metrics(self) -> list[dict[str, Any]]:
        """One flat dict per iteration, in order; a number that was not finite is None."""
        return self._metrics.read()

    def last_logged_iteration(self) -> int:
        """0 before the first."""
        return self._metrics.last_iteration()

    def truncate_metrics(self, last_iteration: int) -> None:
        """Drops every line after `last_iteration`, and half a line that a crash left."""
        self._metrics.truncate(last_iteration)

    def write_rollouts(self, iteration: int, rows: Sequence[dict[str, Any]]) -> None:
        """Writes the rows of `rows.rollout_rows`."""
        write_parquet(self._file("rollouts", iteration), rows, ROLLOUT_SCHEMA)

    def write_values(self, iteration: int, rows: Sequence[dict[str, Any]]) -> None:
        """Writes the rows of `rows.value_rows`."""
        has_further = bool(rows) and "predictor" in rows[0]
        schema = PREDICTION_SCHEMA if has_further else VALUE_SCHEMA
        write_parquet(self._file("values", iteration), rows, schema)

    def write_value_diagnostics(self, iteration: int, rows: Sequence[dict[str, Any]]) -> None:
        """Writes the rows of `value_diagnostics.diagnostic_rows`."""
        write_parquet(self._file("value_diagnostics", iteration), rows, DIAGNOSTICS_SCHEMA)

    def write_evaluation(self, iteration: int, evaluation: dict[str, Any]) -> None:
        """Writes `{"pass@1": …, "num_problems": …, "samples_per_problem": …, …}`."""
        write_atomic(self._file("evaluations", iteration), strict_json(evaluation, indent=2))

    def read_rollouts(self, iteration: int) -> list[dict[str, Any]]:
        return read_parquet(self._file("rollouts", iteration))

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
        """Removes what a crash left of later iterations: tables, evaluations, metrics."""
        for kind in SUFFIXES:
            for later in self.iterations(kind):
                if later > iteration:
                    self._file(kind, later).unlink()
        self.truncate_metrics(iteration)

    def checkpoint_path(self, iteration: int) -> Path:
        return self.checkpoints_path / f"iter_{iteration:06d}"

    def _file(self, kind: str, iteration: int) -> Path:
        return self.path / kind / f"iter_{iteration:06d}{SUFFIXES[kind]}"


def first_difference(there: Any, here: Any, key: str = "") -> tuple[str, Any, Any] | None:
    """The first dotted key at which two nested configs differ, with both values; None if equal.

    A key that one of them lacks has the value "missing" there.

    >>> first_difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    ('a.c', '2', '3')
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for name in [*here, *(name for name in there if name not in here)]:
            dotted = f"{key}.{name}" if key else name
            if name not in there:
                return dotted, "missing", json.dumps(here[name])
            if name not in here:
                return dotted, json.dumps(there[name]), "missing"
            difference = first_difference(there[name], here[name], dotted)
            if difference is not None:
                return difference
        return None
    return None if there == here else (key, json.dumps(there), json.dumps(here))


def _record_environment(run_dir: RunDir) -> None:
    from vineppo.run_dir.environment import (
        describe_environment,
    )  # imports torch, which readers do not need

    environment = describe_environment()
    if run_dir.environment_path.exists():
        first = run_dir.read_environment()
        latest = [first, *first["resumed"]][-1]
        if all(latest[key] == environment[key] for key in environment if key != "started_at"):
            return
        environment = first | {"resumed": [*first["resumed"], environment]}
    else:
        environment["resumed"] = []
    write_atomic(run_dir.environment_path, strict_json(environment, indent=2))
