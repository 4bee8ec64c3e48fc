"""`action-ranking`: who knows which of several next steps at a state is the better one."""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.action_ranking.accuracy import BOUNDARIES, AccuracyRow, accuracy_rows, pooled
from analysis.action_ranking.figure import draw
from analysis.action_ranking.table import RankingTable, find_tables, read_ranking
from analysis.frames import check_same_configs, read_run
from analysis.old_tables import write_table
from analysis.stats.ranking import MIN_ALTERNATIVES
from analysis.summary import write_summary
from analysis.truth import check_names
from vineppo.errors import UserError

ANALYSIS = "action-ranking"
TABLE_NAME = "action_ranking.csv"
LEAST = {"num_states": 1, "num_alternatives": MIN_ALTERNATIVES, "num_samples": 2}
# Of a checkpoint in summary.json: what all predictors share, and what each has.
OF_STATES = (
    "seed", "num_seeds", "num_states", "num_dropped_states", "num_over_states", "num_problems",
    "mean_alternatives", "num_pairs", "num_resolved_pairs", "top1_chance",
)  # fmt: skip
OF_PREDICTOR = ("top1", "pairwise", "top1_difference", "pairwise_difference")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoints", default="last", metavar="all|last|ends|spaced:N|N,N…", help="default: last"
    )
    parser.add_argument(
        "--num-states",
        type=int,
        default=128,
        help="step boundaries a checkpoint; default: %(default)s",
    )
    parser.add_argument(
        "--num-alternatives",
        type=int,
        default=5,
        help="distinct next steps of a state, at most; default: %(default)s",
    )
    parser.add_argument(
        "--num-proposals",
        type=int,
        default=64,
        help="continuations to find them, at most; default: %(default)s",
    )
    parser.add_argument(
        "--num-samples", type=int, default=256, help="continuations of a step; default: %(default)s"
    )
    parser.add_argument(
        "--num-draws",
        type=int,
        default=32,
        help="further ones, for the predictions of MC(K); default: %(default)s",
    )
    parser.add_argument(
        "--continuations", default="1,3,9", metavar="K,K…", help="of MC(K); default: 1,3,9"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="which states, which continuations; default: %(default)s",
    )


def run(
    paths: list[Path], out: Path, checkpoints: str, continuations: str, **settings: int
) -> None:
    """Writes a table a run and checkpoint, accuracies, a figure, a summary; prints their paths.

    Of a run directory what is missing is sampled, and what a kill interrupted goes on. A directory
    without a run whose tables an earlier call wrote is only reported on.
    """
    of_mc = _parse_continuations(continuations)
    run_paths = [path for path in paths if not _holds_tables_only(path)]
    check_names(run_paths)
    found = [table for path in paths if path not in run_paths for table in find_tables(path)]
    if run_paths:
        _check_settings(settings, of_mc)
        check_same_configs([read_run(path) for path in run_paths])
        from analysis.action_ranking.sampling import sample_missing

        found = [*sample_missing(run_paths, out, checkpoints, settings), *found]
    rows = accuracy_rows(_read_tables(found), of_mc)
    target = out / TABLE_NAME
    write_table(target, [dataclasses.asdict(row) for row in rows])
    for path in [*found, target, *draw(rows, out), write_summary(out, ANALYSIS, summary(rows))]:
        print(path)


def summary(rows: Sequence[AccuracyRow]) -> dict[str, Any]:
    """The step boundaries by method and checkpoint."""
    found: dict[str, Any] = {}
    for row in pooled(rows):
        if row.group != BOUNDARIES:
            continue
        checkpoint = found.setdefault(row.name, {}).setdefault(str(row.checkpoint), {})
        checkpoint |= {name: getattr(row, name) for name in OF_STATES}
        of_predictor = {name: interval(row, name) for name in OF_PREDICTOR}
        checkpoint.setdefault("predictors", {})[row.predictor] = of_predictor
    return found


def interval(row: AccuracyRow, name: str) -> dict[str, float | None]:
    """As `write_summary` writes an `Estimate`."""
    ends = {"value": "", "low": "_low", "high": "_high"}
    return {key: getattr(row, name + end) for key, end in ends.items()}


def _parse_continuations(text: str) -> list[int]:
    try:
        numbers = sorted({int(part) for part in text.split(",")})
        if numbers[0] >= 1:
            return numbers
    except ValueError:
        pass
    raise UserError(f"--continuations must be numbers from 1 with commas, got {text!r}")


def _check_settings(settings: dict[str, int], continuations: Sequence[int]) -> None:
    least = LEAST | {
        "num_proposals": settings["num_alternatives"],
        "num_draws": continuations[-1],
    }
    for name, number in least.items():
        if settings[name] < number:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} must be at least {number}, got {settings[name]}")


def _holds_tables_only(path: Path) -> bool:
    return not (path / "config.json").exists() and bool(find_tables(path))


def _read_tables(paths: Sequence[Path]) -> list[RankingTable]:
    """Those with states to rank; the others are named. Refuses two of one run and checkpoint."""
    tables = [read_ranking(path) for path in paths]
    seen: dict[tuple[str, int, str], Path] = {}
    for table in tables:
        other = seen.setdefault((table.name, table.seed, table.path.stem), table.path)
        if other != table.path:
            raise UserError(f"{other} and {table.path} are of one run and checkpoint")
        if not table.ranked_states:
            print(f"{table.path}: no state has {MIN_ALTERNATIVES} next steps to rank")
    found = [table for table in tables if table.ranked_states]
    if not found:
        raise UserError(
            f"no state has {MIN_ALTERNATIVES} next steps to rank; give more --num-states or "
            "--num-proposals"
        )
    return found
