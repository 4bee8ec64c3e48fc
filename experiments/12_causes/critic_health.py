"""What critics and other learned values knew of the rewards, by iteration.

python -m analysis experiments/12_causes/critic_health.py RUN_DIR... --out DIR
"""

import re
from pathlib import Path

import pandas as pd

from analysis import figures
from analysis.frames import read_run
from analysis.tables import Table
from vineppo.errors import UserError

PANELS = {
    "explained_variance": "explained variance",
    "within_problem_correlation": "correlation within problems",
    "calibration_error": "calibration error",
    "value_std": "SD of values; dotted: of rewards",
}
RETURN_STD = "return_std"
NUMBERS = [*PANELS, RETURN_STD]
# What metrics.jsonl has of the values before each iteration's update, against the rewards to go.
HEALTH = Table(
    "value_health.csv",
    {"method": str, "seed": int | None, "predictor": str, "iteration": int}
    | dict.fromkeys(NUMBERS, float | None),
)
METRIC = re.compile(rf"(critic|values/(?P<name>[^/]+))/({'|'.join(NUMBERS)})")


def run(paths: list[Path], out: Path) -> list[Path]:
    """Writes value_health.csv and its figure; returns their paths.

    Each path is a run directory, or a directory whose value_health.csv is drawn again.
    """
    rows = pd.concat([HEALTH.read(p) if HEALTH.holds(p) else health_rows(p) for p in paths])
    return [*draw(rows, out / "value_health"), *HEALTH.write(out, rows)]


def health_rows(path: Path) -> pd.DataFrame:
    """`HEALTH` of a run directory. Raises `UserError` for a run without learned values."""
    run = read_run(path)
    columns: dict[str, dict[str, str]] = {}  # by predictor and number
    for column in run.metrics:
        if match := METRIC.fullmatch(str(column)):
            columns.setdefault(match["name"] or "critic", {})[match[3]] = str(column)
    if not columns:
        raise UserError(f"{path} has no learned values whose metrics could be drawn")
    by_predictor = (
        run.metrics[["iteration"]].assign(
            method=run.name,
            seed=run.seed,
            predictor=predictor,
            **{number: run.metrics[column] for number, column in own.items()},
        )
        for predictor, own in columns.items()
    )
    return HEALTH.frame(pd.concat(by_predictor))


def draw(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A panel a number: its mean over seeds by iteration, of long runs a running mean."""
    several = rows.groupby("method")["predictor"].nunique().max() > 1
    names = rows["method"] + (", " + rows["predictor"] if several else "")
    lines = list(rows.groupby(names, sort=False))
    styles = figures.method_styles([str(name) for name, _ in lines])
    with figures.grid(len(PANELS), 2) as (figure, axes):
        for axis, (number, label) in zip(axes, PANELS.items(), strict=True):
            for name, group in lines:
                style = styles[str(name)] | {"marker": ""}
                means = group.groupby("iteration")[NUMBERS].mean()
                means = means.apply(lambda series: figures.running_mean(series, len(series) // 20))
                method, predictor = group.iloc[0][["method", "predictor"]]
                label_of = figures.method_label(method)
                if several:
                    label_of += f": {figures.predictor_label(predictor)}"
                axis.plot(means[number], label=label_of, **style)
                if number == "value_std":
                    axis.plot(means[RETURN_STD], **style | {"linestyle": ":"}, linewidth=0.8)
            axis.axhline(0, color="0.7", linewidth=0.6, zorder=0)
            axis.set_ylabel(label)
            figures.whole_iterations(axis)
        axes[0].set_ylim(bottom=max(axes[0].get_ylim()[0], -1))  # a bad head's is far below
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)
