"""Shared by the notebooks: paths from the repository on, and figures to show under a cell.

They read the tables of experiments and need neither torch nor vLLM. `jupyter execute --inplace
analysis/notebooks/*.ipynb` runs them anew.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from IPython.display import Image

from analysis.figures import DOTS_PER_IN

REPOSITORY = Path(__file__).resolve().parents[2]
SCREEN = 96  # dots an inch


def drawn(draw: Callable[..., list[Path]], *arguments: Any) -> list[Image]:
    """The figures that `draw(*arguments, path)` writes, in their size."""
    with TemporaryDirectory() as folder:
        pngs = [path.read_bytes() for path in draw(*arguments, Path(folder) / "figure")]
    widths = [int.from_bytes(png[16:20], "big") * SCREEN // DOTS_PER_IN for png in pngs]
    return [Image(png, width=width) for png, width in zip(pngs, widths, strict=True)]
