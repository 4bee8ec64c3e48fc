"""Where the time of an iteration goes: rollouts, values, update, …, a method's seeds together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes

from analysis import figures
from analysis.methods import TABLE_NAME as CURVES_TABLE
from analysis.methods import SeedOfMethod
from analysis.reading import Run, read_run
from analysis.tables import read_table
from analysis.training_curves import PHASES, phase_seconds

TABLE_NAME = "phases.csv"
# Evaluations measure the training and are no part of it; training time leaves them out too.
NAMES = (*(name for _, name in PHASES if name != "evaluation"), "other")


@dataclass(frozen=True)
class PhaseRow(SeedOfMethod):
    """A phase of one run: mean seconds an iteration, and their share of its training time."""

    num_iterations: int
    phase: str
    seconds: float
    share: float


@dataclass(frozen=True)
class MethodPhases:
    """By phase, means over a method's seeds of the mean seconds of an iteration."""

    method: str
    seconds: dict[str, float]

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def shares(self) -> dict[str, float]:
        """They sum to 1 unless nothing took any time."""
        return {name: part / (self.total_s or 1.0) for name, part in self.seconds.items()}


def read_phases(paths: Sequence[Path]) -> list[PhaseRow]:
    """The rows of run directories, and of the tables in directories that hold `learning_curves`'.

    A run that logged no times and a directory without phases.csv have none.
    """
    rows: list[PhaseRow] = []
    for path in paths:
        if (path / CURVES_TABLE).exists() and not (path / "config.json").exists():
            table = path / TABLE_NAME
            rows += read_table(table, PhaseRow) if table.exists() else []
        else:
            rows += phase_rows(read_run(path))
    return sorted(rows, key=lambda row: _place(rows, row))


def phase_rows(run: Run) -> list[PhaseRow]:
    """One a phase that took any time; none where no iteration logged its time."""
    iterations, seconds = phase_seconds(run)
    if not iterations or run.seed is None:
        return []
    means = {name: float(np.mean(seconds[name])) for name in NAMES}
    total = sum(means.values()) or 1.0
    return [
        PhaseRow(str(run.path), run.name, run.seed, len(iterations), name, mean, mean / total)
        for name, mean in means.items()
        if mean > 0
    ]


def method_phases(rows: Sequence[PhaseRow]) -> list[MethodPhases]:
    """The methods in the order of their rows; what a seed has no row of took it no time."""
    found = []
    for method in dict.fromkeys(row.method for row in rows):
        of = [row for row in rows if row.method == method]
        seeds = dict.fromkeys(row.seed for row in of)
        by_seed = {(row.seed, row.phase): row.seconds for row in of}
        means = {name: fmean(by_seed.get((seed, name), 0.0) for seed in seeds) for name in NAMES}
        found.append(MethodPhases(method, {name: mean for name, mean in means.items() if mean > 0}))
    return found


def draw_phases(axes: Sequence[Axes], methods: Sequence[MethodPhases]) -> None:
    """Two panels of stacked bars, a bar a method: seconds of an iteration, and their shares."""
    taken = [name for name in NAMES if any(name in one.seconds for one in methods)]
    labels = [one.method for one in methods]
    for axis, parts, title in (
        (axes[0], [one.seconds for one in methods], "seconds an iteration"),
        (axes[1], [one.shares for one in methods], "share of training time"),
    ):
        left = np.zeros(len(methods))
        for name in taken:
            width = np.array([of.get(name, 0.0) for of in parts])
            color = "#BBBBBB" if name == "other" else figures.COLORS[NAMES.index(name)]
            axis.barh(labels, width, left=left, color=color, label=name)
            left += width
        axis.invert_yaxis()  # the first method on top
        axis.set_xlabel(title)
    axes[1].set_xlim(0, 1)
    axes[1].set_yticklabels([])


def _place(rows: Sequence[PhaseRow], row: PhaseRow) -> tuple[int, int, int]:
    """Methods in order of first sight, their seeds ascending, phases in that of an iteration."""
    methods = list(dict.fromkeys(one.method for one in rows))
    return methods.index(row.method), row.seed, NAMES.index(row.phase)
