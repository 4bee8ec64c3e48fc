"""Final and best pass@1 by the temperatures of training and evaluation, per algorithm.

    python -m analysis experiments/06_temperature/temperature.py RUN_DIR...

A sweep makes the runs (`vineppo sweep experiments/06_temperature/runs.jsonnet`).
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis import figures, frames
from analysis.frames import Run
from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import iqm, iqm_difference
from analysis.tables import Table
from vineppo.errors import UserError
from vineppo.run_dir import read_json

# Methods as people call them, by the kind of credit in a config.
CREDITS = {
    "vine": "VinePPO",
    "martingale": "martingale",
    "tree": "SPO-tree",
    "gae": "PPO",
    "grpo": "GRPO",
    "gigpo": "GiGPO",
    "rloo": "RLOO",
    "reinforce_plus_plus": "REINFORCE++",
    "reinforce_plus_plus_baseline": "REINFORCE++ baseline",
    "remax": "ReMax",
}
# Where an evaluation is from: the run's own, or `vineppo evaluate` on its last policy.
TRAINING, AFTERWARDS = "training", "evaluate"
# Every evaluation of every run, which was trained at `temperature`.
EVALUATIONS = Table(
    "temperature_evaluations.csv",
    {"run_dir": str, "algorithm": str, "temperature": float, "seed": int, "iteration": int}
    | {"source": str, "evaluation_temperature": float, "pass@1": float}
    | {"truncated_frac": float | None, "response_length_mean": float | None}
    | {"num_problems": int, "samples_per_problem": int},
)
SIZES = ["num_problems", "samples_per_problem"]
LENGTHS = ["truncated_frac", "response_length_mean"]
# Interquartile means over the seeds of an algorithm at a temperature of training. `final` is pass@1
# of the last policies under the runs' own evaluation, as are the last two. `best` is the highest of
# a run's evaluations: picked by the very noise that it is made of, it is too high. `as_trained` is
# the last policies' at the temperature of training, empty where some seed was not evaluated so.
# `difference` is of `final`, to the first algorithm at the same temperature.
RESULTS = Table(
    "temperature.csv",
    {"algorithm": str, "temperature": float, "seeds": str, "last_iteration": int}
    | {"evaluation_temperature": float, "num_evaluations": int}
    | dict.fromkeys(["final", "best", "as_trained", "difference", *LENGTHS], Estimate),
)
# The same of the last policies, trained at one temperature and evaluated at another.
BOTH = Table(
    "evaluation_temperature.csv",
    {"algorithm": str, "temperature": float, "evaluation_temperature": float, "num_seeds": int}
    | dict.fromkeys(["pass@1", *LENGTHS], Estimate),
)
DODGE = 0.01  # of the axis between lines, so that their bars do not cover one another


def run(paths: list[Path], out: Path) -> list[Path]:
    """Writes the evaluations and two tables of what they come to, the figure and the summary.

    Each path is a run directory, or a directory whose temperature_evaluations.csv is drawn again.
    """
    rows = read_rows(paths)
    results, both, start = by_training_temperature(rows), by_both_temperatures(rows), start_of(rows)
    return [
        *draw(results, both, start, out / "temperature"),
        *EVALUATIONS.write(out, rows),
        *RESULTS.write(out, results),
        *BOTH.write(out, both),
    ]


def read_rows(paths: Sequence[Path]) -> pd.DataFrame:
    """The `EVALUATIONS` of run directories and tables, by algorithm, temperature and seed.

    Raises `UserError`: for what is neither, runs on different problems or evaluated differently,
    runs of one algorithm whose configs differ in more than name, seed and training temperature
    (naming the key) or that got to different iterations, a seed given twice, and an algorithm of a
    table that stands elsewhere too.
    """
    runs, rows = frames.read_all(paths, EVALUATIONS, evaluation_rows, "algorithm")
    frames.check_same_problems(runs)
    frames.check_same_evaluation(runs)
    names = rows["algorithm"].unique()
    for name in names:
        frames.check_alike(
            [run for run in runs if algorithm(run) == name],
            _without_what_varies,
            f"are both {name} and may differ in name, seed and sampling.temperature alone, but",
        )
    _check_ends(rows)
    order = ["algorithm", "temperature", "seed", "source", "iteration", "evaluation_temperature"]
    return frames.in_order(rows, order, algorithm=names, source=[TRAINING, AFTERWARDS])


def evaluation_rows(run: Run) -> pd.DataFrame:
    """The run's own evaluations, and those made afterwards of its last policy.

    What was made afterwards with another top_p, or on fewer or other problems, is left out: it
    differs in more than the temperature.
    """
    last = max(run.evaluations)
    own = run.evaluations[last]
    evaluations = [(i, TRAINING, f"evaluation {i}", made) for i, made in run.evaluations.items()]
    evaluations += [
        (last, AFTERWARDS, f"evaluations/{path.parent.name}", other)
        for path in sorted(run.path.glob(f"evaluations/*/iter_{last:06d}.json"))
        if (other := read_json(path))
        and all(other.get(key) == own.get(key) for key in ("top_p", "num_problems", "task"))
    ]
    about = run.identity | {"algorithm": algorithm(run)}
    del about["method"]
    about |= _required(run, "config.json", run.config.get("sampling", {}), "temperature")
    rows = []
    for iteration, source, place, evaluation in evaluations:
        numbers = _required(run, place, evaluation, "temperature", "pass@1", *SIZES)
        numbers |= {"evaluation_temperature": numbers.pop("temperature")}
        numbers |= {name: evaluation.get(name) for name in LENGTHS}
        rows.append(about | {"iteration": iteration, "source": source} | numbers)
    return EVALUATIONS.frame(rows)


def algorithm(run: Run) -> str:
    """The credit's name, and the critic's part in it where that is not the usual one.

    "VinePPO", "PPO"; "PPO, shared critic", "VinePPO, critic measured".
    """
    kind = _required(run, "config.json", run.config.get("credit", {}), "kind")["kind"]
    critic = run.config.get("critic")
    name = CREDITS.get(kind, kind)
    if critic is None:
        return name
    if kind != "gae":
        return f"{name}, critic measured"
    return f"{name}, shared critic" if critic["kind"] == "shared" else name


def by_training_temperature(rows: pd.DataFrame) -> pd.DataFrame:
    """The `RESULTS`, in the order of the rows."""
    first = rows["algorithm"].iloc[0]
    finals: dict[tuple[str, float], pd.Series] = {}
    results = []
    for (name, temperature), group in rows.groupby(["algorithm", "temperature"], sort=False):
        own = group[group["source"] == TRAINING]
        last = own[own["iteration"] == own["iteration"].max()]
        final_N = finals[name, temperature] = last["pass@1"]
        first_N = finals.get((first, temperature)) if name != first else None
        ends = at_end(group)
        as_trained = ends[ends["evaluation_temperature"] == temperature]["pass@1"]
        results.append(
            {
                "algorithm": name,
                "temperature": temperature,
                "seeds": " ".join(map(str, last["seed"])),
                "last_iteration": last["iteration"].iloc[0],
                "evaluation_temperature": last["evaluation_temperature"].iloc[0],
                "num_evaluations": own.groupby("seed").size().iloc[0],
                "final": iqm(final_N),
                "best": iqm(own.groupby("seed")["pass@1"].max()),
                "as_trained": iqm(as_trained) if len(as_trained) == len(last) else None,
                "difference": None if first_N is None else iqm_difference(final_N, first_N),
                **_lengths(last),
            }
        )
    return RESULTS.frame(results)


def by_both_temperatures(rows: pd.DataFrame) -> pd.DataFrame:
    """`BOTH`, in the same order, then by ascending temperature of evaluation."""
    results = []
    for (name, temperature), group in rows.groupby(["algorithm", "temperature"], sort=False):
        for evaluated, ends in at_end(group).groupby("evaluation_temperature"):
            of_what = {"algorithm": name, "temperature": temperature}
            of_what |= {"evaluation_temperature": evaluated, "num_seeds": len(ends)}
            results.append(of_what | {"pass@1": iqm(ends["pass@1"])} | _lengths(ends))
    return BOTH.frame(results)


def at_end(rows: pd.DataFrame) -> pd.DataFrame:
    """Every seed's last policy by evaluation temperature: of several, that with most samples."""
    last = rows[rows["iteration"] == rows["iteration"].max()]
    best_first = last.sort_values("samples_per_problem", ascending=False, kind="stable")
    return best_first.drop_duplicates(["seed", "evaluation_temperature"]).sort_index()


def start_of(rows: pd.DataFrame) -> Estimate | None:
    """pass@1 of the starting policy over the seeds of its evaluation; None where none evaluated it.

    All runs of a seed evaluated the same policy on the same random numbers: they count once.
    """
    start = rows[rows["iteration"] == 0].drop_duplicates("seed", keep="last")
    return None if start.empty else iqm(start["pass@1"])


def draw(
    results: pd.DataFrame, both: pd.DataFrame, start: Estimate | None, path: Path
) -> list[Path]:
    """Writes `path`.png: by the temperature of training, and an algorithm by that of evaluation."""
    used = (
        list(results["algorithm"].unique()) if both["evaluation_temperature"].nunique() > 1 else []
    )
    with figures.grid(1 + len(used), 3) as (figure, (first, *others)):
        draw_final(first, results)
        if start is not None:
            look: dict[str, Any] = {"color": "0.6", "linestyle": ":", "linewidth": 0.8, "zorder": 0}
            first.axhline(start.value, label="start", **look)
        for axis, name in zip(others, used, strict=True):
            draw_algorithm(axis, both[both["algorithm"] == name])
            axis.set(xlabel="temperature of evaluation", ylabel="test pass@1", title=name)
        figures.same_ylim(others)
        figures.shared_legend(figure, first, *others)
        return figures.save(figure, path)


def draw_final(axis: Axes, results: pd.DataFrame) -> None:
    """A line an algorithm by the temperature of training: its last policy, at one temperature."""
    names, at = list(results["algorithm"].unique()), results["evaluation_temperature"].iloc[0]
    styles, shifts = figures.method_styles(names), dodge(len(names), results["temperature"])
    for name, shift in zip(names, shifts, strict=True):
        points, style = results[results["algorithm"] == name], styles[name] | {"label": name}
        figures.curve(axis, points, "temperature", "final", style, shift=shift, ends="bars")
    axis.set(xlabel="temperature of training", ylabel=f"test pass@1 at temperature {at:g}")


def draw_algorithm(axis: Axes, both: pd.DataFrame) -> None:
    """A line a training temperature, cold to hot."""
    groups = list(both.groupby("temperature"))
    shifts = dodge(len(groups), both["evaluation_temperature"])
    colors = figures.in_order(len(groups))
    for (temperature, points), shift, color in zip(groups, shifts, colors, strict=True):
        style = {"color": color, "label": f"trained at {temperature:g}", "marker": "o"}
        x, y = "evaluation_temperature", "pass@1"
        figures.curve(axis, points, x, y, style, shift=shift, ends="bars")
        as_trained = points[points[x] == temperature]
        axis.plot(as_trained[x] + shift, as_trained[y], "o", color=color, ms=7, fillstyle="none")


def dodge(num_lines: int, places: pd.Series) -> list[float]:
    """How far to shift each of the lines, to either side."""
    width = DODGE * (places.max() - places.min())
    return [width * (index - (num_lines - 1) / 2) for index in range(num_lines)]


def _required(run: Run, place: str, content: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        if key not in content:
            raise UserError(f"{run.path}: {place} has no {key!r}")
    return {key: content[key] for key in keys}


def _lengths(rows: pd.DataFrame) -> dict[str, Estimate | None]:
    """Interquartile means over seeds; None where a seed has no such number."""
    return {name: None if rows[name].hasnans else iqm(rows[name]) for name in LENGTHS}


def _without_what_varies(run: Run) -> dict[str, Any]:
    """The config but for what tells the runs of an algorithm apart."""
    masked = copy.deepcopy(run.config) | {"name": None, "seed": None}
    masked["sampling"]["temperature"] = None
    return masked


def _check_ends(rows: pd.DataFrame) -> None:
    """Every seed once, and all of an algorithm up to the same iteration."""
    for run_dir in rows.loc[rows.duplicated(), "run_dir"]:
        raise UserError(f"{run_dir} is given twice")
    cell = ["algorithm", "temperature", "seed"]
    for (name, temperature, seed), run_dirs in rows.groupby(cell)["run_dir"].unique().items():
        if len(run_dirs) > 1:
            raise UserError(
                f"{run_dirs[0]} and {run_dirs[1]} are both seed {seed} of {name} at "
                f"temperature {temperature:g}"
            )
    for run_dir, sources in rows.groupby("run_dir", sort=False)["source"]:
        if TRAINING not in set(sources):
            raise UserError(f"{run_dir} has no evaluation of its training")
    for _, group in rows.groupby("algorithm", sort=False):
        lasts = group.groupby("run_dir", sort=False)["iteration"].max()
        for run_dir, last in lasts.items():
            if last != lasts.iloc[0]:
                raise UserError(
                    f"{lasts.index[0]} was evaluated up to iteration {lasts.iloc[0]} and {run_dir} "
                    f"up to {last}; finish the one or leave it out"
                )
