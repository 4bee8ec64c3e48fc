"""`advantages`: how steps' advantages are spread, how many are near zero, which are critical."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.advantages.credit import RunIteration, read_credit
from analysis.advantages.critical import CriticalStep, critical_steps, run_tokenizer
from analysis.advantages.figure import draw
from analysis.advantages.spread import (
    OfSteps,
    PlaceRow,
    QuantileRow,
    SpreadRow,
    place_rows,
    quantile_rows,
    spread_row,
)
from analysis.advantages.steps import ALL, GROUPS, flatten
from analysis.frames import choose_iterations, existing_run_dir, read_config
from analysis.old_tables import read_table, write_table
from analysis.rollout_truths import truth_tables
from analysis.summary import write_summary
from vineppo.errors import UserError
from vineppo.run_dir import first_difference

ANALYSIS = "advantages"


@dataclass
class Tables:
    """What the analysis writes, by file."""

    spread: list[SpreadRow] = field(default_factory=list)
    quantiles: list[QuantileRow] = field(default_factory=list)
    places: list[PlaceRow] = field(default_factory=list)
    critical: list[CriticalStep] = field(default_factory=list)

    def add(self, other: "Tables") -> None:
        for name, rows in vars(other).items():
            getattr(self, name).extend(rows)


FILES: dict[str, tuple[str, type]] = {
    "spread": ("advantages.csv", SpreadRow),
    "quantiles": ("advantages_quantiles.csv", QuantileRow),
    "places": ("advantages_by_place.csv", PlaceRow),
    "critical": ("critical_steps.csv", CriticalStep),
}
MAY_BE_ABSENT = ("critical",)  # of runs without values


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iterations",
        default="ends",
        metavar="all|last|ends|spaced:N|N,N…",
        help="of those with rollouts; ends: the first, the middle and the last; default: ends",
    )
    parser.add_argument("--near-zero", type=float, default=0.05, help="|A| below it; default: 0.05")
    parser.add_argument(
        "--num-critical",
        type=int,
        default=20,
        help="critical steps listed of an iteration; default: %(default)s",
    )
    parser.add_argument(
        "--truth",
        type=Path,
        metavar="DIR",
        help="the --out of ground-truth; default: OUT, then each run's own",
    )


def run(
    paths: list[Path],
    out: Path,
    iterations: str,
    near_zero: float,
    num_critical: int,
    truth: Path | None,
) -> None:
    """Writes four tables, a figure and a summary; prints their paths.

    Each path is a run directory, or a directory that an earlier call wrote its tables to.
    """
    if not near_zero > 0 or num_critical < 0:
        raise UserError(
            f"--near-zero must be above 0 and --num-critical at least 0, got {near_zero:g} and "
            f"{num_critical}"
        )
    run_paths = [path for path in paths if not _holds_tables_only(path)]
    truths = find_truths(run_paths, truth, out)
    tables = Tables()
    for path in paths:
        if path in run_paths:
            tables.add(read_run(path, iterations, near_zero, num_critical, truths[path]))
        else:
            tables.add(read_tables(path))
    check_once(tables.spread)
    written = write_tables(tables, out)
    written += draw(tables.spread, tables.quantiles, tables.places, out)
    for target in [*written, write_summary(out, ANALYSIS, summary(tables.spread))]:
        print(target)


def find_truths(
    paths: Sequence[Path], given: Path | None, out: Path
) -> dict[Path, dict[int, Path]]:
    """The ground-truth tables of each run by checkpoint, of runs of one task."""
    if not paths:
        return {}
    check_tasks(paths)
    tables = truth_tables(paths, [] if given is None else [given], out)
    return dict(zip(paths, tables, strict=True))


def read_run(
    path: Path, iterations: str, near_zero: float, num_critical: int, truths: Mapping[int, Path]
) -> Tables:
    """The tables of one run directory."""
    run_dir = existing_run_dir(path)
    config, saved = read_config(path), run_dir.iterations("rollouts")
    if not saved:
        raise UserError(f"{path} has no rollouts yet")
    tokenizer = run_tokenizer(path, config)
    name, seed = str(config.get("name", path.name)), config.get("seed")
    tables = Tables()
    for iteration in choose_iterations(
        saved, iterations, "--iterations", f"{path} has no rollouts"
    ):
        credit = read_credit(path, RunIteration(str(path), name, seed, iteration), truths)
        tables.critical += critical_steps(credit, tokenizer, num_critical)
        for source in credit.sources:
            steps = flatten(credit.rows, credit.advantages(source), near_zero)
            for group in GROUPS:
                of_group = steps.of_group(group)
                if len(of_group):
                    key = OfSteps(**vars(credit.of), source=source, group=group)
                    tables.spread.append(spread_row(key, of_group, near_zero))
                    tables.quantiles += quantile_rows(key, of_group)
                    tables.places += place_rows(key, of_group, near_zero)
    return tables


def check_tasks(paths: Sequence[Path]) -> None:
    """Refuses runs of different tasks, whose steps are not comparable (`UserError`)."""
    configs = list(map(read_config, paths))
    for path, config in zip(paths[1:], configs[1:], strict=True):
        tasks = (one.get("task", {}) for one in (configs[0], config))
        difference = first_difference(*tasks)
        if difference is not None:
            key, there, here = difference
            raise UserError(
                f"{paths[0]} and {path} are of different tasks: task.{key} is {there} in the one "
                f"and {here} in the other"
            )


def check_once(rows: Sequence[SpreadRow]) -> None:
    """Refuses an iteration of a run that was given twice, as a run and in a table, say."""
    seen = set()
    for row in rows:
        key = row.run_dir, row.iteration, row.source, row.group
        if key in seen:
            raise UserError(f"{row.run_dir}: iteration {row.iteration} was given twice")
        seen.add(key)


def write_tables(tables: Tables, out: Path) -> list[Path]:
    written = []
    for name, (file_name, _) in FILES.items():
        rows: list[Any] = getattr(tables, name)
        if rows:
            write_table(out / file_name, [dataclasses.asdict(row) for row in rows])
            written.append(out / file_name)
    return written


def read_tables(path: Path) -> Tables:
    """The tables that an earlier call wrote to `path`."""
    return Tables(
        **{
            name: read_table(path / file_name, row_type)
            for name, (file_name, row_type) in FILES.items()
            if name not in MAY_BE_ABSENT or (path / file_name).exists()
        }
    )


def summary(rows: Sequence[SpreadRow]) -> dict[str, Any]:
    """By run directory, iteration and source, over all rollouts."""
    found: dict[str, Any] = {}
    for row in rows:
        if row.group == ALL:
            of_run = found.setdefault(row.run_dir, {})
            of_run.setdefault(f"iter_{row.iteration:06d}", {})[row.source] = {
                "num_steps": row.num_steps,
                "mean_abs": row.mean_abs,
                "zero": row.zero,
                "near_zero": _interval(row, "near_zero"),
                "top_share": _interval(row, "top_share"),
                "even_share": row.even_share,
            }
    return found


def _interval(row: SpreadRow, name: str) -> dict[str, float | None]:
    ends = {"value": "", "low": "_low", "high": "_high"}
    return {key: getattr(row, name + end) for key, end in ends.items()}


def _holds_tables_only(path: Path) -> bool:
    return not (path / "config.json").exists() and (path / FILES["spread"][0]).exists()
