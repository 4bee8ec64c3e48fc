"""The evaluations of a run under other conditions: `vineppo evaluate RUN_DIR --set …`."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vineppo.run_dir.metrics_log import read_json


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
