"""What the notebooks share: paths from the repository on, and figures to show under a cell.

They read the tables of analyses, those of the experiments unless told otherwise, and need neither
torch nor vLLM. What they show is made by the functions that the analyses are made of, so that a
number can be followed to its docstring.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from analysis import figures

# The package is installed in place by `make setup`; elsewhere paths are those of the reader.
REPOSITORY = next(
    (folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists()),
    Path.cwd(),
)
PRINTED, STORED, SHOWN = 300, 144, 96  # dots an inch: of `figures.save`, in a notebook, of a screen


@dataclass(frozen=True)
class Picture:
    """A PNG of a figure, small enough to be stored, which a notebook shows at its size in print."""

    png: bytes = field(repr=False)  # the text beside the picture in a saved notebook
    width: int = field(repr=False)  # in pixels of a screen

    @classmethod
    def of_print(cls, png: bytes) -> "Picture":
        """Of a PNG with 300 dots an inch: 750 dots in the file are 240 on a screen."""
        printed = Image.open(io.BytesIO(png)).convert("RGB")
        size = [round(dots * STORED / PRINTED) for dots in printed.size]
        stored = io.BytesIO()
        # 64 colours are enough for a diagram, and a quarter of the bytes.
        printed.resize(size, Image.Resampling.LANCZOS).quantize(64).save(
            stored, "PNG", optimize=True
        )
        return cls(stored.getvalue(), round(printed.width * SHOWN / PRINTED))

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
        return [Picture.of_print(path.read_bytes()) for path in written if path.suffix == ".png"]


def picture(figure: Figure) -> Picture:
    """A figure of `figures.panels`, to be called while that is open: it holds the style."""
    return Picture.of_print(figures.render(figure, "png"))
