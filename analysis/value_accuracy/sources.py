"""Where states come from: run directories, and directories that hold a table of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.frames import Run, check_same_configs, read_config
from analysis.truth import ANALYSIS, check_names
from analysis.value_accuracy.predictions import Wanted, run_rows
from analysis.value_accuracy.states import TABLE_NAME, StateRow, read_states
from vineppo.errors import UserError
from vineppo.run_dir import first_difference


def collect(paths: Sequence[Path], out: Path, truth: Path | None, wanted: Wanted) -> list[StateRow]:
    """The states of all paths. The truth of a run is looked for in `truth`, if that is given; else
    in `out`, then where `ground-truth` puts that of the other runs, then in the run itself.

    Raises `UserError` for what is neither run nor table, for a run that has no truth there, for
    runs of different tasks, for one name with two configs or from two sources, and for a seed of a
    name that is given twice.
    """
    given = [] if truth is None else [truth]
    is_table = [_is_table(path) for path in paths]
    run_paths = [path for path, is_one in zip(paths, is_table, strict=True) if not is_one]
    _check_runs(run_paths)
    rows: list[StateRow] = []
    tables: dict[str, Path | None] = {}  # by name: its table, None for run directories
    for path, is_one in zip(paths, is_table, strict=True):
        source = path if is_one else None
        if is_one:
            new = _table_rows(path, wanted)
        else:
            others = [other / "analysis" / ANALYSIS for other in run_paths if other != path]
            new = run_rows(path, given, [out, *others], wanted)
        for name in {row.name for row in new}:
            if tables.setdefault(name, source) != source:
                raise UserError(
                    f"{path} holds {name}, which stands in another table or run too; give either "
                    "its table or its run directories"
                )
        rows += new
    _check_rows(rows)
    return rows


def _is_table(path: Path) -> bool:
    return (path / TABLE_NAME).exists() and not (path / "config.json").exists()


def _table_rows(path: Path, wanted: Wanted) -> list[StateRow]:
    rows = read_states(path / TABLE_NAME)
    if wanted.predictors is None:
        return rows
    found = {row.predictor for row in rows}
    for predictor in wanted.predictors:
        if predictor not in found:
            raise UserError(f"{path / TABLE_NAME} has no predictor {predictor}")
    return [row for row in rows if row.predictor in wanted.predictors]


def _check_runs(paths: Sequence[Path]) -> None:
    check_names(paths)
    configs = {path: read_config(path) for path in paths}
    for path, config in configs.items():
        first = configs[paths[0]].get("task")
        difference = first_difference({"task": first}, {"task": config.get("task")})
        if difference is not None:
            key, there, here = difference
            raise UserError(
                f"{paths[0]} and {path} are runs of different tasks: {key} is {there} in the one "
                f"and {here} in the other"
            )
    check_same_configs([_bare(path, config) for path, config in configs.items()])


def _bare(path: Path, config: dict[str, Any]) -> Run:
    """A run of which nothing but the config is looked at: it may not have been evaluated yet."""
    return Run(path, config)


def _check_rows(rows: Sequence[StateRow]) -> None:
    """What two runs, or a table, which holds no config, can still have wrong."""
    runs: dict[tuple[str, int], str] = {}
    for row in rows:
        if row.task != rows[0].task:
            raise UserError(f"{rows[0].run_dir} and {row.run_dir} are runs of different tasks")
        other = runs.setdefault((row.name, row.seed), row.run_dir)
        if other != row.run_dir:
            raise UserError(f"{other} and {row.run_dir} are both seed {row.seed} of {row.name}")
