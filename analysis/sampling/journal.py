"""The settings of a table, what is sampled of it already, and how far the sampling is.

A table with the same settings is kept. An unfinished one has a journal, so that a killed analysis
resumes. Needs no torch.
"""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vineppo.errors import UserError
from vineppo.run_dir import named_errors, read_json, strict_json, write_atomic

if TYPE_CHECKING:
    from vineppo.engine import Engine

LINE_EVERY_S = 15.0


def settings_path(table: Path) -> Path:
    """`iter_000010.json` of `iter_000010.parquet`."""
    return table.with_suffix(".json")


def is_made(table: Path, settings: dict[str, Any]) -> bool:
    """True where the table is there, whole. Raises `UserError` where other settings made it."""
    is_whole = table.exists() and settings_path(table).exists()
    if is_whole:
        check_settings(table, read_settings(table), settings)
    return is_whole


def read_settings(table: Path) -> dict[str, Any]:
    """The settings beside a table. Raises `UserError` naming a file that is missing or damaged."""
    return read_json(settings_path(table))


def write_settings(table: Path, settings: dict[str, Any]) -> None:
    """Comes after the table, which is finished by it."""
    write_atomic(settings_path(table), strict_json(settings, indent=2))


def check_settings(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    """Raises `UserError` where a file was begun or made with other settings, naming one."""
    for key, value in here.items():
        if there.get(key) != value:
            raise UserError(
                f"{path} was made with {key} {json.dumps(there.get(key))}, now it is "
                f"{json.dumps(value)}; remove it or give another --out"
            )


class Journal:
    """A file of JSON lines: the settings, then a line for each finished piece of work.

    It is there from the first line on. A line that a crash cut off is dropped. Raises `UserError`
    for a file of other settings, naming the first that differs.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path, self._settings = path, settings
        self.lines: list[dict[str, Any]] = []
        if path.exists():
            self.lines = self._read()
            self._write()

    def append(self, line: dict[str, Any]) -> None:
        """The line is on the disk when this returns."""
        if not self._path.exists():
            self._write()
        with named_errors("write", self._path), self._path.open("ab") as file:
            file.write(strict_json(line))
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)

    def close(self) -> None:
        """Removes the file: what it held stands elsewhere."""
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        whole = [self._settings, *self.lines]
        write_atomic(self._path, b"".join(strict_json(line) for line in whole))

    def _read(self) -> list[dict[str, Any]]:
        with named_errors("read", self._path):
            *lines, _ = self._path.read_bytes().split(b"\n")
        if not lines:
            return []
        try:
            settings, *rows = (json.loads(line) for line in lines)
        except ValueError as error:
            raise UserError(f"{self._path} is damaged: {error}; remove it to start anew") from None
        check_settings(self._path, settings, self._settings)
        return rows


class Meter:
    """Counts finished pieces of work of `total`, and the engine's tokens per second.

    It prints a line now and then, and at the end.
    """

    def __init__(self, title: str, total: int, done: int, engine: "Engine") -> None:
        self._title, self._total, self.done, self._engine = title, total, done, engine
        self._started = self._said = time.perf_counter()
        self._tokens = engine.counts.sampled_tokens

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            print(self.line(), flush=True)

    def advance(self) -> None:
        self.done += 1
        self.tick()

    def tick(self) -> None:
        if time.perf_counter() - self._said > LINE_EVERY_S:
            self._said = time.perf_counter()
            print(self.line(), flush=True)

    @property
    def cost(self) -> dict[str, float]:
        """Since the start."""
        tokens = self._engine.counts.sampled_tokens - self._tokens
        time_s = time.perf_counter() - self._started
        return {"num_tokens": tokens, "time_s": time_s, "tokens_per_s": tokens / max(time_s, 1e-9)}

    def line(self) -> str:
        tokens, time_s, rate = self.cost.values()
        done = f"{self._title}: {self.done}/{self._total}"
        return f"{done}, {tokens:,} tokens, {rate:,.0f} tok/s, {time_s:.0f} s"
