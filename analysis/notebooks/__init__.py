"""What the notebooks share: paths from the repository on, and figures to show under a cell.

They read runs and the tables of analyses, and need neither torch nor vLLM. What they show is made
by the functions that the analyses are made of, so that a number can be followed to its docstring.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from analysis import figures

# The package is installed in place by `make setup`; elsewhere paths are those of the reader.
REPOSITORY = next(
    (folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists()),
    Path.cwd(),
)
DOTS_PER_IN = 300, 96  # of the files that `figures.save` writes, of a screen
WIDTH_IN_PNG = slice(16, 20)  # big-endian, in the first chunk


@dataclass(frozen=True)
class Picture:
    """A PNG with 300 dots an inch, which a notebook shows at the size that it has in print."""

    png: bytes = field(repr=False)  # the text beside the picture in a saved notebook

    @property
    def width(self) -> int:
        """In pixels of a screen: 750 dots in the file are 240."""
        printed, shown = DOTS_PER_IN
        return round(int.from_bytes(self.png[WIDTH_IN_PNG]) * shown / printed)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """What IPython asks for."""
        return self.png, {"width": self.width}


def in_repository(names: Sequence[str]) -> list[Path]:
    """The paths `names`, relative ones from the root of the repository on."""
    return [REPOSITORY / name for name in names]


def drawn(draw: Callable[..., list[Path]], *arguments: Any) -> list[Picture]:
    """The figures that `draw(*arguments, path)` writes, of which nothing is kept on the disk."""
    with TemporaryDirectory() as folder:
        written = draw(*arguments, Path(folder) / "figure")
        return [Picture(path.read_bytes()) for path in written if path.suffix == ".png"]


def picture(figure: Figure) -> Picture:
    """A figure of `figures.panels`, to be called while that is open: it holds the style."""
    return Picture(figures.render(figure, "png"))
