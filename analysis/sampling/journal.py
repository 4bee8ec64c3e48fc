"""What is sampled already, on the disk, so that a killed analysis goes on where it was."""

import json
import os
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.run_dir.files import named_errors, strict_json, write_atomic


class Journal:
    """A file of JSON lines: the settings, then a line for each finished piece of work.

    A line that a crash cut off is dropped. Raises `UserError` for a file of other settings, naming
    the first that differs.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self._settings = settings
        self.lines: list[dict[str, Any]] = []
        if path.exists():
            self.lines = self._read()
        whole = [settings, *self.lines]
        write_atomic(path, b"".join(strict_json(line) for line in whole))

    def append(self, line: dict[str, Any]) -> None:
        """The line is on the disk when this returns."""
        with named_errors("write", self._path), self._path.open("ab") as file:
            file.write(strict_json(line))
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def close(self) -> None:
        """Removes the file: what it held stands elsewhere."""
        self._path.unlink()

    def _read(self) -> list[dict[str, Any]]:
        with named_errors("read", self._path):
            *lines, _ = self._path.read_bytes().split(b"\n")
        if not lines:
            return []
        try:
            found, *rows = (json.loads(line) for line in lines)
        except ValueError as error:
            raise UserError(f"{self._path} is damaged: {error}; remove it to start anew") from None
        check_settings(self._path, found, self._settings)
        return rows


# Of whose run a table is, which older ones do not say.
ADDED = ("method", "run_seed")


def check_settings(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    """Raises `UserError` where a file was begun or made with other settings, naming one."""
    for key, value in here.items():
        is_untold = key in ADDED and key not in there
        if there.get(key) != value and not is_untold:
            raise UserError(
                f"{path} was made with {key} {json.dumps(there.get(key))}, now it is "
                f"{json.dumps(value)}; remove it or give another --out"
            )
