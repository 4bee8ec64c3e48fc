"""What a table was made with, beside it: whether it is there already, and is what was asked for."""

from pathlib import Path
from typing import Any

from analysis.frames import read_config
from analysis.sampling.journal import check_settings
from vineppo.run_dir.files import read_json, strict_json, write_atomic


def settings_path(table: Path) -> Path:
    """`iter_000010.json` of `iter_000010.parquet`."""
    return table.with_suffix(".json")


def of_checkpoint(run_path: Path, checkpoint: int, settings: dict[str, Any]) -> dict[str, Any]:
    """`settings` with the run and checkpoint that they are for.

    Directories of one name, given one call after the other with one --out, have one table: it is
    the run's name and seed that tell them apart.
    """
    config = read_config(run_path)
    whose = {"run": run_path.resolve().name, "method": config.get("name")}
    return whose | {"run_seed": config.get("seed"), "checkpoint": checkpoint} | settings


def is_made(table: Path, settings: dict[str, Any]) -> bool:
    """Whether the table is there, whole. Raises `UserError` where other settings made it."""
    if not table.exists() or not settings_path(table).exists():
        return False
    check_settings(table, read_settings(table), settings)
    return True


def read_settings(table: Path) -> dict[str, Any]:
    """What is beside a table. Raises `UserError` naming a file that is missing or damaged."""
    return read_json(settings_path(table))


def write_settings(table: Path, settings: dict[str, Any]) -> None:
    """Comes after the table, which is finished by it."""
    write_atomic(settings_path(table), strict_json(settings, indent=2))
