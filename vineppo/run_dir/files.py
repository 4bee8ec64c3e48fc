"""Files, and lines of them, that appear whole or not at all; the lock of a directory."""

import fcntl
import json
import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from vineppo.errors import UserError

logger = logging.getLogger(__name__)

TEMPORARY_SUFFIX = ".vineppo-tmp"
TEMPORARIES = f".*{TEMPORARY_SUFFIX}"  # the files that a killed `write_atomic` leaves half-written


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
