"""The run directory: every file that a run leaves behind, written whole or not at all."""

from vineppo.run_dir.config import first_difference
from vineppo.run_dir.directory import RunDir

__all__ = ["RunDir", "first_difference"]
