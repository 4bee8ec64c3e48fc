"""`kl-efficiency`: what pass@1 a method buys for how much KL to the starting policy.

The KL is that of the policy as it samples, exact over the vocabulary at every token of its own
responses to test problems, both policies at the training temperature. Runs of one name that differ
in their seed alone are one curve along training, the interquartile mean over seeds.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.frames import Run, check_same_configs, check_same_problems, existing_run_dir, read_run
from analysis.kl_efficiency.curves import KLS, KlMethod, efficiencies, group
from analysis.kl_efficiency.figure import draw
from analysis.kl_efficiency.samples import FOLDER, SAMPLE_SCHEMA, estimates, read_samples
from analysis.kl_efficiency.table import (
    TABLE_NAME,
    KlRow,
    check_measured_alike,
    check_one_start,
    evaluation_source,
    evaluations_of,
    make_row,
    metric_rows,
)
from analysis.old_tables import read_table, write_table
from analysis.summary import write_summary
from analysis.truth import check_names
from vineppo.errors import UserError

ANALYSIS = "kl-efficiency"
SOURCES = ("samples", "metrics")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoints", default="all", metavar="all|last|ends|spaced:N|N,N…",
        help="of --source samples; default: all, with the starting policy",
    )  # fmt: skip
    parser.add_argument("--num-problems", type=int, default=64, help="of the test problems")
    parser.add_argument("--num-samples", type=int, default=4, help="responses of a problem")
    parser.add_argument(
        "--source", choices=SOURCES, default="samples",
        help="metrics: what the runs logged as kl/ref, an estimate on train problems, in place of "
        "the exact KL of responses that the engine samples now; default: samples",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="which problems, which responses")


def run(
    paths: list[Path],
    out: Path,
    checkpoints: str,
    num_problems: int,
    num_samples: int,
    source: str,
    seed: int,
) -> None:
    """Writes kl_efficiency.csv, .png, .svg and a summary, and the samples' tables; prints paths.

    Each path is a run directory, or a directory whose kl_efficiency.csv is drawn again. What is
    sampled of a checkpoint is kept, so that after a kill only those without a table are sampled.
    """
    if num_problems < 1 or num_samples < 1:
        raise UserError(
            f"--num-problems and --num-samples must be at least 1, got {num_problems} and "
            f"{num_samples}"
        )
    run_paths = [path for path in paths if not _is_drawn_again(path)]
    rows = [
        row
        for path in paths
        if path not in run_paths
        for row in read_table(path / TABLE_NAME, KlRow)
    ]
    if run_paths:
        for path in run_paths:
            existing_run_dir(path)
        runs = [read_run(path) for path in run_paths]
        check_names(run_paths)
        check_same_problems(runs)
        check_one_start(runs)
        check_same_configs(runs)
        settings = {"num_problems": num_problems, "num_samples": num_samples, "seed": seed}
        if source == "metrics":
            rows += [row for one in runs for row in metric_rows(one)]
        else:
            rows += sampled_rows(runs, make_samples(runs, out, checkpoints, settings))
    check_measured_alike(rows)
    methods = group(rows)
    write_table(out / TABLE_NAME, [dataclasses.asdict(row) for row in rows])
    figure = draw(methods, out / "kl_efficiency")
    summary = write_summary(out, ANALYSIS, _summary(methods))
    for written in [out / TABLE_NAME, *figure, summary]:
        print(written)


def make_samples(
    runs: Sequence[Run], out: Path, checkpoints: str, settings: dict[str, Any]
) -> list[dict[int, Path]]:
    """The samples of the chosen checkpoints by run and iteration, made where they are not there."""
    from analysis.sampling.kl import kl_rows
    from analysis.sampling.policies import choose_checkpoints, make_tables

    paths = [one.path for one in runs]
    chosen = choose_checkpoints(paths, checkpoints, out, FOLDER, settings)
    make_tables(chosen, SAMPLE_SCHEMA, kl_rows)
    return [{one.iteration: one.table for one in chosen if one.run_path == path} for path in paths]


def sampled_rows(runs: Sequence[Run], tables: Sequence[dict[int, Path]]) -> list[KlRow]:
    """A row a run and checkpoint.

    pass@1 is the evaluations' where every checkpoint of every run has one, else the samples': the
    points of one figure are measured alike.
    """
    evaluations = [evaluations_of(one) for one in runs]
    pairs = list(zip(runs, tables, evaluations, strict=True))
    is_evaluated = all(of.keys() <= points.keys() for _, of, points in pairs)
    rows = []
    for one, of, points in pairs:
        for iteration, path in of.items():
            samples = read_samples(path)
            found = estimates(samples)
            pass_at_1, pass_source = found["sample_pass_at_1"], "samples"
            if is_evaluated:
                pass_at_1 = points[iteration]
                pass_source = evaluation_source(one)
            num_problems = len({sample.problem_id for sample in samples})
            rows.append(
                make_row(
                    one,
                    iteration,
                    kl_source="exact",
                    **found,
                    pass_source=pass_source,
                    pass_at_1=pass_at_1,
                    num_problems=num_problems,
                    samples_per_problem=len(samples) // num_problems,
                    response_length=sum(s.num_tokens for s in samples) / len(samples),
                )
            )
    return rows


def _is_drawn_again(path: Path) -> bool:
    return (path / TABLE_NAME).exists() and not (path / "config.json").exists()


def _summary(methods: Sequence[KlMethod]) -> dict[str, Any]:
    by_kl = {kl: efficiencies(methods, kl) for kl in KLS}
    summary = {}
    for index, method in enumerate(methods):
        first = next(iter(method.rows_by_seed.values()))[0]
        summary[method.name] = {
            "seeds": list(method.rows_by_seed),
            "iterations": method.iterations,
            "kl_source": first.kl_source,
            "pass_source": first.pass_source,
            **{kl: vars(of[index]) for kl, of in by_kl.items()},
        }
    return summary
