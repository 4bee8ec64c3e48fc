"""The look of every figure: colour-blind-safe, small, readable in print."""

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vineppo.run_dir.files import write_atomic

# Okabe & Ito, 2008: told apart with every common kind of colour blindness.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINE_STYLES = ("-", "--", "-.", ":")
PANEL_WIDTH_IN, PANEL_HEIGHT_IN = 2.6, 2.4
LETTERS_PER_IN = 15  # of 8 pt text
LEGEND_HANDLE_LETTERS = 8  # the room of a legend's line and the gap after its name

_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "vineppo",  # the same figure is the same file
}


@contextmanager
def panels(
    num_rows: int, num_columns: int, margin_in: float = 0.0
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of equal panels, row by row, in the project's style; the margin is for a legend."""
    with mpl.rc_context(_STYLE):
        size = (PANEL_WIDTH_IN * num_columns + margin_in, PANEL_HEIGHT_IN * num_rows)
        figure = Figure(figsize=size)
        axes = figure.subplots(num_rows, num_columns, squeeze=False)
        yield figure, list(axes.flat)


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the line number `index`; they repeat only after 32 lines."""
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": LINE_STYLES[index // len(COLORS) % len(LINE_STYLES)],
    }


def marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def whole_iterations(axis: Axes) -> None:
    axis.set_xlabel("iteration")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def shared_legend(figure: Figure, axis: Axes) -> None:
    """One legend under all panels, in as many columns as its longest name leaves room for."""
    handles, names = axis.get_legend_handles_labels()
    letters_a_line = LETTERS_PER_IN * figure.get_size_inches()[0]
    columns = int(letters_a_line // (max(map(len, names)) + LEGEND_HANDLE_LETTERS))
    columns = min(max(columns, 1), len(handles))
    figure.legend(handles, names, loc="outside lower center", ncols=columns)


def caption(figure: Figure, text: str) -> None:
    """A line over all panels, or as many as it takes."""
    letters_a_line = int(LETTERS_PER_IN * figure.get_size_inches()[0])
    figure.suptitle("\n".join(textwrap.wrap(text, letters_a_line)), fontsize=8)


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes `path`.png (300 dpi) and `path`.svg."""
    written = []
    for suffix in ("png", "svg"):
        target = path.with_name(f"{path.name}.{suffix}")
        write_atomic(target, render(figure, suffix))
        written.append(target)
    return written


def render(figure: Figure, suffix: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else None
    figure.savefig(buffer, format=suffix, dpi=300, metadata=metadata)
    return buffer.getvalue()
