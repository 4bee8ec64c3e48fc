"""`gradient-variance`: how noisy each estimator's policy gradient is, and what its noise costs.

The gradients of all estimators are of the same rollouts and the same policy: those of the run's own
loss (`sampling/gradients.py`), in float32 at the training temperature, of raw advantages unless
`--whiten` asks for whitened ones. The unit is the problem, whose rollouts share a prompt and often
a baseline.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.frames import existing_run_dir
from analysis.gradient_variance.figure import draw
from analysis.gradient_variance.noise import NoiseRow, noise_rows
from analysis.gradient_variance.table import find_tables, read_gradients, table_path
from analysis.old_tables import read_table, write_table
from analysis.summary import write_summary
from analysis.truth import check_names
from vineppo.errors import UserError

ANALYSIS = "gradient-variance"
TABLE_NAME = "gradient_variance.csv"
IN_SUMMARY = (
    "trace", "trace_ratio", "trace_tokens_ratio", "trace_time_ratio", "signal_to_noise",
    "signal_per_token", "signal_per_s", "cosine", "difference_to_noise",
)  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoints", default="last", metavar="all|last|ends|spaced:N|N,N…", help="default: last"
    )
    parser.add_argument("--num-problems", type=int, help="default: those of an iteration")
    parser.add_argument(
        "--estimators", default="all", metavar="NAME,NAME…",
        help="rloo, grpo, reinforce_plus_plus, remax, gae, vine_k1, vine_k2, …; the first is what "
        "the others are compared with; default: all that the run allows, rloo first",
    )  # fmt: skip
    parser.add_argument(
        "--sample-values", type=int, default=0, metavar="K",
        help="sample K continuations of every state and greedy responses with the engine, and "
        "rollouts where too few of the checkpoint's own are saved; default: what the run saved",
    )  # fmt: skip
    parser.add_argument(
        "--projection", type=int, default=65_536, metavar="D",
        help="coordinates of a random sketch of each gradient; 0: all, without a sketch",
    )  # fmt: skip
    parser.add_argument(
        "--whiten", action="store_true", help="whiten the advantages over all tokens, as updates do"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is sampled and of the sketch")


@dataclass(frozen=True)
class _Checkpoint:
    run_path: Path
    policy_path: str
    target: Path
    settings: dict[str, Any]


def run(
    paths: list[Path],
    out: Path,
    checkpoints: str,
    num_problems: int | None,
    estimators: str,
    sample_values: int,
    projection: int,
    whiten: bool,
    seed: int,
) -> None:
    """Writes a table of inner products a checkpoint, gradient_variance.csv, .png, .svg, a summary.

    Each path is a run directory, or a directory whose tables (gradients/, else the CSV) are drawn
    again. What is there already is kept; sampling that a kill interrupted goes on.
    """
    if (num_problems is not None and num_problems < 2) or sample_values < 0 or projection < 0:
        raise UserError(
            "--num-problems must be at least 2, --sample-values and --projection 0, got "
            f"{num_problems}, {sample_values} and {projection}"
        )
    settings = {
        "num_problems": num_problems,
        "estimators": estimators,
        "sample_values": sample_values,
        "projection": projection,
        "whiten": whiten,
        "seed": seed,
    }
    run_paths = [path for path in paths if not _is_drawn_again(path)]
    check_names(run_paths)
    made = make_tables(run_paths, out, checkpoints, settings) if run_paths else []
    rows = [row for path in paths if path not in run_paths for row in _old_rows(path)]
    rows += [row for target in made for row in noise_rows(read_gradients(target))]
    _check_first(rows)
    write_table(out / TABLE_NAME, [dataclasses.asdict(row) for row in rows])
    figure = draw(rows, out / "gradient_variance")
    summary = write_summary(out, ANALYSIS, _summary(rows))
    for written in [*made, out / TABLE_NAME, *figure, summary]:
        print(written)


def make_tables(
    run_paths: Sequence[Path], out: Path, checkpoints: str, settings: dict[str, Any]
) -> list[Path]:
    """The tables of the chosen checkpoints, made where they are not there."""
    from analysis.sampling.gradient_tables import make_gradients
    from analysis.sampling.policies import choose, open_policies, policy_paths, shared_config
    from analysis.sampling.settings_file import is_made, of_checkpoint

    wanted = []
    for path in run_paths:
        existing_run_dir(path)
        found = policy_paths(path, shared_config([path]).model.path)
        for checkpoint in choose(list(found), checkpoints, path):
            about = of_checkpoint(path, checkpoint, settings)
            target = table_path(out, path, checkpoint)
            wanted.append(_Checkpoint(path, found[checkpoint], target, about))
    missing = [one for one in wanted if not is_made(one.target, one.settings)]
    with ExitStack() as stack:
        policies = None
        if missing and settings["sample_values"]:
            policies = stack.enter_context(open_policies(run_paths, settings["seed"]))
        for one in missing:
            make_gradients(one.run_path, one.policy_path, one.target, one.settings, policies)
    return [one.target for one in wanted]


def _is_drawn_again(path: Path) -> bool:
    has_table = (path / TABLE_NAME).exists() or bool(find_tables(path))
    return has_table and not (path / "config.json").exists()


def _old_rows(path: Path) -> list[NoiseRow]:
    tables = find_tables(path)
    if not tables:
        return read_table(path / TABLE_NAME, NoiseRow)
    return [row for table in tables for row in noise_rows(read_gradients(table))]


def _check_first(rows: Sequence[NoiseRow]) -> None:
    firsts = dict.fromkeys(next(r.estimator for r in rows if r.group == row.group) for row in rows)
    if len(firsts) > 1:
        raise UserError(
            f"tables must compare with one estimator, the first of each, got {', '.join(firsts)}"
        )


def _summary(rows: Sequence[NoiseRow]) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for row in rows:
        run = summary.setdefault(
            f"{row.run}/iter_{row.checkpoint:06d}",
            {
                "num_problems": row.num_problems,
                "rollout_iteration": row.rollout_iteration,
                "is_own_policy": row.rollout_iteration == row.checkpoint + 1,
                "first_estimator": row.estimator,
                "estimators": {},
            },
        )
        if row.quantity in IN_SUMMARY:
            interval = {"value": row.value, "low": row.low, "high": row.high}
            run["estimators"].setdefault(row.estimator, {})[row.quantity] = interval
    return summary
