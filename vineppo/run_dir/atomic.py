"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
