"""`action-ranking`: who knows which of several next steps at a state is the better one.

The tables of alternatives, `OUT/action_ranking/<run>/iter_000010.parquet`, have a row a next step.
A JSON file holds the settings of each. All else follows from them without torch.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes

from analysis import figures, options
from analysis.frames import check_same_configs, read_run
from analysis.sampling.journal import read_settings, settings_path
from analysis.stats import bootstrap, ranking
from analysis.stats.bootstrap import LEVEL, Estimate, Terms
from analysis.stats.ranking import MIN_ALTERNATIVES
from analysis.tables import Table, check_counts, find_tables, holds_tables_alone, read_rows
from analysis.truth import check_names
from analysis.value_figures import Styles, styles
from vineppo.errors import UserError
from vineppo.types import question_of

ANALYSIS, FOLDER = "action-ranking", "action_ranking"
# One row per alternative; those of a state are next to each other, as the policy proposed them. The
# state is one of the rollouts of `rollout_iteration`; `num_drawn_states` were looked at, some of
# them left out for want of alternatives. Of `num_proposals` continuations `num_proposed` began with
# this step. `num_correct` of `num_samples` returns after it were 1, the rest 0; `draws_D` are
# returns of further continuations. A step that ends the response (`is_terminal`) has one return,
# which all of them are. `predictions` are V of the state after the step by the run's predictors.
STATE = ["problem_id", "rollout_index", "step_index"]
SCHEMA = pa.schema(
    dict.fromkeys(("checkpoint", "rollout_iteration", "num_drawn_states"), pa.int32())
    | {"problem_id": pa.string()}
    | dict.fromkeys(("rollout_index", "step_index", "num_steps"), pa.int32())
    | dict.fromkeys(("prefix_length", "response_length", "alternative_index"), pa.int32())
    | {"step_ids": pa.list_(pa.int32()), "step_text": pa.string()}
    | {"num_proposed": pa.int32(), "num_proposals": pa.int32(), "is_terminal": pa.bool_()}
    | dict.fromkeys(("num_samples", "num_correct", "num_truncated"), pa.int32())
    | {"num_tokens": pa.int64(), "draws_D": pa.list_(pa.int8())}
    | {"predictions": pa.map_(pa.string(), pa.float32())}
)
# One predictor at the states of a group. `seed` is the run's, or "all" for the `num_seeds` runs
# of a name together. The differences are to MC of the most continuations on the same
# resamples of problems; `top1_chance` is what a random choice reaches, and a random order has a
# pairwise accuracy of ½. `num_dropped_states` had fewer than three distinct next steps, queries
# among them. At `num_over_states` of the group every step ended the response: these are left out.
# Columns that all predictors share at the states of a group.
OF_STATES: dict[str, type] = {"num_states": int, "num_dropped_states": int, "num_over_states": int}
OF_STATES |= {"num_problems": int, "mean_alternatives": float, "num_pairs": int}
OF_STATES |= {"num_resolved_pairs": int, "top1_chance": float}
OF_PREDICTOR = ("top1", "pairwise", "top1_difference", "pairwise_difference")
ACCURACIES = Table(
    "action_ranking.csv",
    {"name": str, "seed": str, "num_seeds": int, "checkpoint": int, "group": str, "predictor": str}
    | OF_STATES
    | dict.fromkeys(OF_PREDICTOR, Estimate),
)
FUNCTIONS = {"top1": ranking.top1, "pairwise": ranking.pairwise}
# The name of an axis, and chance; None where the table has it.
STATISTICS = {"top1": ("top-1 accuracy", None), "pairwise": ("pairwise accuracy", 0.5)}
ALL_SEEDS = "all"
BOUNDARIES, QUERY = "boundaries", "query"
# The boundaries where no alternative ends the response: all predictors know an end's return.
NO_ENDS = "no ends"
THIRDS = ("first third", "middle third", "last third")  # the boundaries by place in the response
GROUPS = (BOUNDARIES, QUERY, *THIRDS, NO_ENDS)
NUM_RESAMPLES = 2000
DODGE = 0.13  # between the predictors of one place, in places
TITLE_PAD = 10  # points, for the markers of a perfect accuracy


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_checkpoints(parser)
    options.add_numbers(
        parser,
        num_states=(128, "Draw so many step boundaries of a checkpoint."),
        num_alternatives=(5, "Compare at most so many distinct next steps of a state."),
        num_proposals=(64, "Sample at most so many continuations to find them."),
        num_samples=(256, "Sample so many continuations of each step for its true value."),
        num_draws=(32, "Sample so many further ones, from which MC(K) predicts."),
        seed=(0, "Seed the choice of states and what is sampled."),
    )
    options.add_continuations(parser, "1,3,9", "Rank by MC(K) of these K.")


def run(
    paths: list[Path], out: Path, checkpoints: str, continuations: tuple[int, ...], **settings: int
) -> list[Any]:
    """Writes a table a run and checkpoint, accuracies, a figure, a summary.

    In a run directory it samples missing tables and resumes interrupted ones. It only reports on a
    directory that holds tables and no run.
    """
    folders = [path for path in paths if holds_tables_alone(path, FOLDER)]
    run_paths = [path for path in paths if path not in folders]
    check_names(run_paths)
    tables = [table for folder in folders for table in find_tables(folder, FOLDER)]
    if run_paths:
        options.check_least(
            settings,
            num_states=1,
            num_alternatives=MIN_ALTERNATIVES,
            num_samples=2,
            num_proposals=settings["num_alternatives"],
            num_draws=max(continuations),
        )
        check_same_configs([read_run(path) for path in run_paths])
        from analysis.sampling.alternatives import ranking_rows
        from analysis.sampling.policies import choose_checkpoints, make_tables

        chosen = choose_checkpoints(
            run_paths, checkpoints, out, FOLDER, settings, with_rollouts=True
        )
        tables = [*make_tables(chosen, SCHEMA, ranking_rows), *tables]
    states = [read_states(table) for table in tables]
    rows = accuracies([of_table for of_table in states if is_rankable(of_table)], continuations)
    left_out = [
        f"{table}: no state has {MIN_ALTERNATIVES} next steps to rank"
        for table, of_table in zip(tables, states, strict=True)
        if not is_rankable(of_table)
    ]
    return [*left_out, *tables, *ACCURACIES.write(out, rows), *draw(rows, out)]


def read_states(path: Path) -> pd.DataFrame:
    """A row a state of a table, which may hold none, with its alternatives as arrays.

    Columns: path, name and seed of the run, checkpoint, num_drawn_states, num_samples, num_draws,
    problem_id, group, is_over, has_end, num_correct [A], draws [A, D], predictions {name: [A]}.
    `is_over`: every alternative ends the response, so no value is estimated; `has_end`: one does.
    Raises `UserError` naming the file, and the row if any.
    """
    about = read_settings(path)
    name, seed = about.get("method"), about.get("run_seed")
    if not isinstance(name, str) or not isinstance(seed, int):
        raise UserError(f"{settings_path(path)} does not say of which run {path.name} is")
    rows = read_rows(path, SCHEMA, None)
    check_counts(rows, path)
    if len({(row["checkpoint"], row["num_samples"], len(row["draws_D"])) for row in rows}) > 1:
        raise UserError(
            f"{path}: all rows must have one checkpoint, num_samples and draws_D's length"
        )
    states = []
    for key, steps in pd.DataFrame(rows, columns=SCHEMA.names).groupby(STATE, sort=False):
        if list(steps["alternative_index"]) != list(range(len(steps))):
            raise UserError(f"{path}: the alternatives of {'/'.join(map(str, key))} are not whole")
        states.append({"path": str(path), "name": name, "seed": seed, **_state(steps)})
    return pd.DataFrame(states)


def is_rankable(states: pd.DataFrame) -> bool:
    return not states.empty and not states["is_over"].all()


def accuracies(tables: Sequence[pd.DataFrame], continuations: Sequence[int]) -> pd.DataFrame:
    """The `ACCURACIES` of each table's states, then of all seeds of its name.

    Raises `UserError` for no table, too few draws, and tables that do not go together.
    """
    if not tables:
        raise UserError(
            f"no state has {MIN_ALTERNATIVES} next steps to rank; give more --states or --proposals"
        )
    rows: list[dict[str, Any]] = []
    for _, together in pd.concat(tables).groupby(["name", "checkpoint"], sort=False):
        by_seed = [states for _, states in together.groupby("seed")]
        for states in by_seed:
            _check(states, by_seed[0].iloc[0], max(continuations))
            rows += _rows(states, continuations)
        if len(by_seed) > 1:
            rows += _rows(together.sort_values("seed", kind="stable"), continuations)
    return ACCURACIES.frame(rows)


def pooled(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all seeds together, and of the only seed where there is but one."""
    several = rows.groupby(["name", "checkpoint"])["num_seeds"].transform("max") > 1
    return rows[~several | (rows["seed"] == ALL_SEEDS)]


def group_of(prefix_length: int, response_length: int) -> str:
    """A state at 0.5 of its rollout's tokens is of the middle third, the prompt alone a query."""
    return THIRDS[3 * prefix_length // response_length] if prefix_length else QUERY


def predictor_terms(states: pd.DataFrame, continuations: Sequence[int]) -> dict[str, Terms]:
    """`ranking_terms` of every predictor, MC of the most continuations last of its kind.

    MC(K) averages a state's disjoint sets of K draws: 32 draws are ten sets of 3, two are left
    over. The run's predictors that value every alternative follow.
    """
    terms = {f"mc_{k}": _mc_terms(states, k) for k in sorted(set(continuations))}
    for name in states["predictions"].iloc[0]:
        if all(name in values for values in states["predictions"]):
            terms[name] = _terms(states, [values[name] for values in states["predictions"]])
    return terms


def draw(rows: pd.DataFrame, out: Path) -> list[Path]:
    """Writes action_ranking.png: a row a method at its last checkpoint."""
    rows = pooled(rows)
    last = rows.groupby("name")["checkpoint"].transform("max")
    methods = list(rows[rows["checkpoint"] == last].groupby("name", sort=False))
    looks = styles(rows["predictor"])
    with figures.panels(len(methods), len(STATISTICS), margin_in=1.0) as (figure, axes):
        for index, (_, of_name) in enumerate(methods):
            draw_method(axes[len(STATISTICS) * index :], of_name, looks)
        # A method without a critic lacks its line.
        fullest = max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[1]))
        figures.shared_legend(figure, fullest)
        return figures.save(figure, out / "action_ranking")


def draw_method(axes: Sequence[Axes], rows: pd.DataFrame, looks: Styles) -> None:
    """Top-1 and pairwise accuracy by place in the response, the predictors side by side."""
    num_states = rows.groupby("group")["num_states"].first()
    groups = [group for group in GROUPS if group in num_states]
    names = {BOUNDARIES: "all"}  # the name is too long for its place
    ticks = ["\n".join([*names.get(g, g).split(), f"({num_states[g]})"]) for g in groups]
    rows = rows.assign(place=rows["group"].map(groups.index))
    first, num_seeds = rows.iloc[0], rows["num_seeds"].max()
    seeds = f"{num_seeds} seeds" if num_seeds > 1 else f"seed {first.seed}"
    title = f"{figures.method_label(first['name'])}, {seeds}, iteration {first.checkpoint}"
    axes[0].set_title(title, pad=TITLE_PAD, loc="left")
    for axis, (name, (label, chance)) in zip(axes, STATISTICS.items(), strict=False):
        for index, (predictor, look) in enumerate(looks.items()):
            shift = DODGE * (index - (len(looks) - 1) / 2)
            shown = rows[(rows["predictor"] == predictor) & rows[name].notna()]
            style = look | {"linestyle": "", "label": figures.predictor_label(predictor)}
            axis.plot(shown["place"] + shift, shown[name], clip_on=False, **style)
            ends = shown[f"{name}_low"], shown[f"{name}_high"]
            bars = axis.vlines(shown["place"] + shift, *ends, look["color"], clip_on=False)
            bars.set(linewidth=1, zorder=2)
        levels = rows.drop_duplicates("place").set_index("place")
        levels = levels["top1_chance"] if chance is None else levels["num_states"] * 0 + chance
        axis.hlines(levels, levels.index - 0.4, levels.index + 0.4, color="0.6", label="chance")
        axis.set_xticks(range(len(groups)), ticks)
        axis.set(xlim=(-0.5, len(groups) - 0.5), ylim=(0, 1), ylabel=label)
        axis.set_xlabel("place in the response (states)")


def _state(steps: pd.DataFrame) -> dict[str, Any]:
    first = steps.iloc[0]
    predictions = [dict(values) for values in steps["predictions"]]
    names = [name for name in predictions[0] if all(name in values for values in predictions)]
    return {
        **first[["checkpoint", "num_drawn_states", "num_samples", "problem_id"]],
        "num_draws": len(first["draws_D"]),
        "group": group_of(first["prefix_length"], first["response_length"]),
        "is_over": steps["is_terminal"].all(),
        "has_end": steps["is_terminal"].any(),
        "num_correct": steps["num_correct"].to_numpy(),
        "draws": np.array(list(steps["draws_D"])),
        "predictions": {name: np.array([values[name] for values in predictions]) for name in names},
    }


def _check(states: pd.DataFrame, other: pd.Series, most: int) -> None:
    """Refuses tables that do not go together; `other` is a state of the first seed of the name."""
    first = states.iloc[0]
    if most > first.num_draws:
        raise UserError(
            f"{first.path} has {first.num_draws} draws a step, too few for --continuations {most}"
        )
    if len(paths := states["path"].unique()) > 1:
        raise UserError(f"{paths[0]} and {paths[1]} are of one run and checkpoint")
    for key in ("num_samples", "num_draws"):
        if other[key] != first[key]:
            raise UserError(
                f"{other.path} and {first.path} are seeds of {first['name']}, but {key} is "
                f"{other[key]} in the one and {first[key]} in the other"
            )


def _rows(states: pd.DataFrame, continuations: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of the states of one seed, or of several together."""
    ranked = states[~states["is_over"]]
    terms = predictor_terms(ranked, continuations)
    baseline = terms[f"mc_{max(continuations)}"]
    tables = states.drop_duplicates("path")
    of_tables = {
        "name": tables["name"].iloc[0],
        "seed": ALL_SEEDS if len(tables) > 1 else str(tables["seed"].iloc[0]),
        "num_seeds": len(tables),
        "checkpoint": tables["checkpoint"].iloc[0],
        "num_dropped_states": tables["num_drawn_states"].sum() - len(states),
    }
    rows = []
    for group in GROUPS:
        chosen_N = _in_group(ranked, group)
        if not chosen_N.any():
            continue
        of_base = _chosen(baseline, chosen_N)
        of_group = of_tables | _of_group(ranked[chosen_N], group, of_base)
        of_group["num_over_states"] = (_in_group(states, group) & states["is_over"]).sum()
        problem_N = ranked["problem_id"][chosen_N].map(question_of).to_numpy()
        for predictor, of_N in terms.items():
            estimates = _estimates(_chosen(of_N, chosen_N), of_base, problem_N)
            rows.append({"predictor": predictor, **of_group, **estimates})
    return rows


def _in_group(states: pd.DataFrame, group: str) -> np.ndarray:
    groups = states["group"]
    if group in (BOUNDARIES, NO_ENDS):
        return ((groups != QUERY) & ((group == BOUNDARIES) | ~states["has_end"])).to_numpy()
    return (groups == group).to_numpy()


def _of_group(states: pd.DataFrame, group: str, terms: Terms) -> dict[str, Any]:
    """The columns that do not depend on the predictor."""
    sizes = states["num_correct"].map(len)
    return {
        "group": group,
        "num_states": len(states),
        "num_problems": states["problem_id"].map(question_of).nunique(),
        "mean_alternatives": sizes.mean(),
        "num_pairs": (sizes * (sizes - 1) // 2).sum(),
        "num_resolved_pairs": round(float(terms["pairs"].sum())),
        "top1_chance": float(ranking.chance(bootstrap.total(terms))),
    }


def _mc_terms(states: pd.DataFrame, num_continuations: int) -> Terms:
    size = num_continuations
    of_sets = [
        _terms(
            states, [draws[:, i * size : (i + 1) * size].mean(axis=1) for draws in states["draws"]]
        )
        for i in range(states["num_draws"].iloc[0] // size)
    ]
    return {name: np.mean([terms[name] for terms in of_sets], axis=0) for name in of_sets[0]}


def _terms(states: pd.DataFrame, predictions: Sequence[np.ndarray]) -> Terms:
    num_samples = int(states["num_samples"].iloc[0])
    return ranking.ranking_terms(predictions, list(states["num_correct"]), num_samples, LEVEL)


def _chosen(terms: Terms, chosen_N: np.ndarray) -> Terms:
    return {name: of_N[chosen_N] for name, of_N in terms.items()}


def _estimates(terms: Terms, baseline: Terms, problem_N: np.ndarray) -> dict[str, Estimate]:
    def resampled(function: Callable[..., dict[str, Estimate]], *of_N: Terms) -> Any:
        given = *of_N, problem_N, FUNCTIONS, np.random.default_rng(bootstrap.BOOTSTRAP_SEED)
        return function(*given, num_resamples=NUM_RESAMPLES, level=LEVEL)

    differences = resampled(bootstrap.bootstrap_difference, terms, baseline)
    alone: dict[str, Estimate] = resampled(bootstrap.bootstrap_sums, terms)
    return alone | {f"{name}_difference": number for name, number in differences.items()}
