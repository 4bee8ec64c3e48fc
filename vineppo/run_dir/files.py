"""Files that appear whole or not at all; metrics.jsonl: a line an iteration, never half of one."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vineppo.errors import UserError

TEMPORARY_SUFFIX = ".vineppo-tmp"


def write_atomic(path: Path, content: bytes) -> None:
    """Writes `content` to `path` in one visible step: a temporary file beside it, then a rename.

    Both the file and its directory entry are on the disk when this returns, so a reader, and a run
    resumed after a crash, sees the old file or the new one. Creates the parent directory. Raises
    `UserError` with the system's reason and the path, for a full disk, say.
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


def is_temporary(path: Path) -> bool:
    """Whether `path` is what a killed `write_atomic` left half-written."""
    return path.name.startswith(".") and path.name.endswith(TEMPORARY_SUFFIX)


def sweep_temporaries(*directories: Path) -> None:
    """Removes what a killed process left half-written in `directories`."""
    for directory in directories:
        for leftover in directory.glob(f".*{TEMPORARY_SUFFIX}"):
            leftover.unlink(missing_ok=True)


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


class MetricsLog:
    """The one writer of a metrics file, and its reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_iteration: int | None = None

    def append(self, metrics: dict[str, Any]) -> None:
        """Adds the line of one iteration; it is on the disk when this returns.

        `metrics["iteration"]` must be greater than that of every line before (`ValueError`). A full
        disk leaves the file as it was (`UserError`).
        """
        iteration = metrics["iteration"]
        if self._last_iteration is None:
            rows = self.read() if self.path.exists() else []
            self._rewrite(rows)  # a line that a crash cut off must not run into the next one
        assert self._last_iteration is not None
        if iteration <= self._last_iteration:
            raise ValueError(
                f"iteration must be greater than {self._last_iteration}, got {iteration}"
            )
        with named_errors("write", self.path):
            _append_line(self.path, strict_json({"iteration": iteration, **metrics}))
        self._last_iteration = iteration

    def last_iteration(self) -> int:
        """The iteration of the last whole line; 0 without one."""
        rows = self.read() if self.path.exists() else []
        return rows[-1]["iteration"] if rows else 0

    def read(self) -> list[dict[str, Any]]:
        """All rows in the order of the file; half a last line is left out.

        Raises `UserError` for a file that cannot be read and for a line that is no JSON object.
        """
        with named_errors("read", self.path):
            *lines, _ = self.path.read_bytes().split(b"\n")
        rows = []
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict) or not isinstance(row.get("iteration"), int):
                raise UserError(f"{self.path}, line {number} must be the metrics of an iteration")
            rows.append(row)
        return rows

    def truncate(self, last_iteration: int) -> None:
        """Drops the lines after `last_iteration`, which a resumed run will write again."""
        if self.path.exists():
            self._rewrite([row for row in self.read() if row["iteration"] <= last_iteration])

    def _rewrite(self, rows: list[dict[str, Any]]) -> None:
        write_atomic(self.path, b"".join(strict_json(row) for row in rows))
        self._last_iteration = rows[-1]["iteration"] if rows else 0


def strict_json(data: Any, indent: int | None = None) -> bytes:
    """`data` as a line of JSON; NaN and the infinities, which JSON lacks, become null.

    >>> strict_json({"reward/mean": float("nan"), "kl": [0.5]})
    b'{"reward/mean": null, "kl": [0.5]}\\n'
    """
    return json.dumps(_finite(data), indent=indent, allow_nan=False).encode() + b"\n"


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


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


def _append_line(path: Path, line: bytes) -> None:
    """Writes the whole line or, where the disk is full, nothing."""
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            written = 0
            while written < len(line):
                written += file.write(line[written:])
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), size)
            raise
