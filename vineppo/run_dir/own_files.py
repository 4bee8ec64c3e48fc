"""own_files.json: which contents the user's own files had when the run began."""

from collections.abc import Mapping
from pathlib import Path

from vineppo.errors import UserError
from vineppo.run_dir.atomic import write_atomic
from vineppo.run_dir.metrics_log import read_json, strict_json

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
