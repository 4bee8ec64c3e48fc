"""`kl-efficiency`: what pass@1 a method buys for how much KL to the starting policy.

The KL is exact over the vocabulary at every token of the policy's responses to test problems, both
policies at the training temperature. Runs that differ only in their seed are one curve along
training, the interquartile mean over seeds.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import figures, frames, options
from analysis.frames import OF_RUN, Run
from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import common_support, crossing, iqm, iqm_difference
from analysis.tables import Table, estimate, estimate_columns
from analysis.truth import check_names
from vineppo.errors import UserError

KLS = {
    "kl_per_token": "KL to the start (nats per token)",
    "kl_per_sequence": "KL to the start (nats per response)",
}
Curve = tuple[list[float], list[float]]  # of a seed: KL and pass@1
# A checkpoint of one run, with intervals over problems. `kl_source` and `pass_source` say where the
# numbers are from; `sample_pass@1` is of the responses of the KL, at the training temperature.
POINTS = Table(
    "kl_efficiency.csv",
    OF_RUN
    | {"iteration": int, "kl_source": str, "kl_per_token": Estimate, "kl_per_sequence": Estimate}
    | {"pass_source": str, "pass@1": Estimate, "sample_pass@1": Estimate}
    | {"num_problems": int | None, "samples_per_problem": int | None}
    | {"response_length": float | None},
)
# A method at an iteration: interquartile means over seeds.
CURVES = Table("", {"method": str, "iteration": int} | dict.fromkeys([*KLS, "pass@1"], Estimate))
# A method by one of the two KL, as interquartile means over seeds. `matched` is pass@1 where the
# curves first reach the KL `level`; `gain_per_nat` is the gain in pass@1 from the first common
# iteration to the last per nat between them. Differences are to the first method. Empty where the
# data give none: of one checkpoint, or of a KL that did not grow.
EFFICIENCIES = Table(
    "kl_efficiency_gains.csv",
    {"kl": str, "method": str, "level": float | None}
    | dict.fromkeys(["matched", "difference", "gain_per_nat", "gain_difference"], Estimate),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_checkpoints(parser, default="all")
    options.add_numbers(
        parser,
        num_problems=(64, "Sample responses to so many test problems."),
        num_samples=(4, "Sample so many responses of a problem."),
        seed=(0, "Seed the choice of problems and what is sampled."),
    )


def run(paths: list[Path], out: Path, checkpoints: str, **settings: int) -> list[Path]:
    """Writes both tables, the figure, and the samples' tables.

    Each path is a run directory, or a directory with a kl_efficiency.csv to draw again. After a
    kill, it samples only the checkpoints without a table.
    """
    options.check_least(settings, num_problems=1, num_samples=1)
    by_path = {path: POINTS.read(path) for path in paths if POINTS.holds(path)}
    runs = [frames.read_run(path) for path in paths if path not in by_path]
    check_names([run.path for run in runs])
    frames.check_same_problems(runs)
    starts = "start from different policies, so that their KL does not compare:"
    frames.check_alike(runs, lambda run: {"model.path": run.config["model"]["path"]}, starts)
    frames.check_same_configs(runs)
    if runs:
        from analysis.sampling.kl import sample_cells

        sampled = sample_cells([run.path for run in runs], out, checkpoints, settings)
        by_path |= sampled_points(runs, sampled)
    rows = pd.concat([by_path[path] for path in paths], ignore_index=True)
    points = comparable(rows)
    return [
        *POINTS.write(out, rows),
        *draw(points, out / "kl_efficiency"),
        *EFFICIENCIES.write(out, efficiencies(points)),
    ]


def sampled_points(
    runs: Sequence[Run], sampled: Mapping[Path, Mapping[int, Mapping[str, Any]]]
) -> dict[Path, pd.DataFrame]:
    """`POINTS` of every run's sampled checkpoints, from their cells by run and iteration.

    pass@1 is the evaluations' where every checkpoint of every run has one, else the samples': the
    points of one figure are measured alike.
    """
    is_evaluated = all(sampled[run.path].keys() <= run.evaluations.keys() for run in runs)
    ends = dict(zip(("pass@1", "low", "high"), estimate_columns("pass@1"), strict=True))
    points = {}
    for run in runs:
        curve = frames.learning_curve(run).set_index("iteration")
        evaluations, rows = curve[list(ends)].rename(columns=ends), []
        how = run.config.get("evaluation", {})
        source = f"evaluation (temperature {how.get('temperature')}, top_p {how.get('top_p')})"
        for iteration, cells in sampled[run.path].items():
            row = run.identity | {"iteration": iteration, "kl_source": "exact", **cells}
            if is_evaluated:
                row |= {"pass_source": source, **evaluations.loc[iteration]}
            else:
                row |= {"pass_source": "samples", "pass@1": cells["sample_pass@1"]}
            rows.append(row)
        points[run.path] = POINTS.frame(rows)
    return points


def comparable(rows: pd.DataFrame) -> pd.DataFrame:
    """The `POINTS` at iterations that all seeds of a method have, by method, seed and iteration.

    Raises `UserError` for KLs or pass@1 that are measured differently, a seed given twice, and
    seeds that share no iteration. Tables hold no config, so their source columns must tell.
    """
    for sources in (rows["kl_source"].str.partition(" ")[0], rows["pass_source"]):
        for place in sources.index[sources != sources.iloc[0]]:
            raise UserError(
                f"{rows['run_dir'].iloc[0]} and {rows['run_dir'][place]} are measured differently: "
                f"by {sources.iloc[0]} in the one and {sources[place]} in the other"
            )
    frames.check_seeds_once(rows, "iteration")
    methods = rows["method"].unique()
    common = frames.common_iterations(rows)
    return frames.in_order(common, ["method", "seed", "iteration"], method=methods)


def method_curves(points: pd.DataFrame) -> pd.DataFrame:
    """`CURVES`. A method with one seed gets that run, with intervals over problems."""
    return CURVES.frame(
        {"method": name, "iteration": iteration}
        | {
            column: estimate(seeds.iloc[0], column) if len(seeds) == 1 else iqm(seeds[column])
            for column in (*KLS, "pass@1")
        }
        for (name, iteration), seeds in points.groupby(["method", "iteration"], sort=False)
    )


def efficiencies(points: pd.DataFrame) -> pd.DataFrame:
    """`EFFICIENCIES` by KL, then by method."""
    columns = ("matched", "difference"), ("gain_per_nat", "gain_difference")
    rows = []
    for kl in KLS:
        level = matched_level(points, kl)
        first: list[list[float]] = []  # what the first method's seeds have of each
        for name, curves in seed_curves(points, kl).items():
            matched = [] if level is None else [crossing(*curve, level) for curve in curves]
            scores = [matched, _gains(curves)]
            row: dict[str, Any] = {"kl": kl, "method": name, "level": level}
            for i, (column, difference) in enumerate(columns):
                row[column] = iqm(scores[i]) if scores[i] else None
                if first and scores[i] and first[i]:
                    row[difference] = iqm_difference(scores[i], first[i])
            first = first or scores
            rows.append(row)
    return EFFICIENCIES.frame(rows)


def seed_curves(points: pd.DataFrame, kl: str) -> dict[str, list[Curve]]:
    """KL and pass@1 of every seed, by method."""
    return {
        str(name): [
            (seed[kl].tolist(), seed["pass@1"].tolist()) for _, seed in rows.groupby("seed")
        ]
        for name, rows in points.groupby("method", sort=False)
    }


def matched_level(points: pd.DataFrame, kl: str) -> float | None:
    """The greatest KL that every seed of every method reaches; None where they share no stretch.

    Curves from 0 to 0.5, 0.25 and 1 nats: 0.25.
    """
    curves = [curve for seeds in seed_curves(points, kl).values() for curve in seeds]
    support = common_support([(nats[0], max(nats)) for nats, _ in curves])
    return None if support is None else support[1]


def draw(points: pd.DataFrame, path: Path) -> list[Path]:
    """Writes `path`.png: a line a method along its training, by the KL per token."""
    curves, labels = method_curves(points), figures.seed_labels(points)
    styles = figures.method_styles(list(labels))
    kl, label = next(iter(KLS.items()))
    with figures.panels(1, 1, margin_in=1.2) as (figure, (axis,)):
        for name, curve in curves.groupby("method", sort=False):
            style = styles[str(name)]
            figures.curve(
                axis, curve, kl, "pass@1", style | {"label": labels[str(name)]}, ends="bars"
            )
            ends = curve[f"{kl}_low"], curve[f"{kl}_high"]
            axis.hlines(curve["pass@1"], *ends, color=style["color"], linewidth=0.8)
        if (level := matched_level(points, kl)) is not None:
            line = axis.axvline(level, color="0.5", linestyle=":", label="matched KL")
            line.set(linewidth=0.8, zorder=0)
        axis.set(xlabel=label, ylabel="test pass@1", xlim=(0, None))
        axis.text(0.02, 0.98, "↖ better", transform=axis.transAxes, va="top")
        figures.shared_legend(figure, axis)
        return figures.save(figure, path)


def _gains(curves: Sequence[Curve]) -> list[float]:
    """The gain per nat by seed; none where a seed's KL did not grow."""
    if any(nats[-1] <= nats[0] for nats, _ in curves):
        return []
    return [(scores[-1] - scores[0]) / (nats[-1] - nats[0]) for nats, scores in curves]
