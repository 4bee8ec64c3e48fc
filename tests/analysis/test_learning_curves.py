"""Learning curves: costs add up, intervals are right, damage is one clear line."""

import csv
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from analysis import ANALYSES
from analysis.__main__ import main
from analysis.intervals import bootstrap_interval
from analysis.reading import labels, learning_curve, read_run
from vineppo.run_dir import RunDir

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_evaluation_stands_beside_what_the_training_had_cost(run_path):
    curve = learning_curve(read_run(run_path))
    assert [point.iteration for point in curve] == [0, 4, 8, 12]
    assert [point.elapsed_s for point in curve] == [0, 40, 80, 120]
    # 8,000 tokens of rollouts and 40,000 of values an iteration
    assert [point.sampled_tokens for point in curve] == [0, 4 * 48_000, 8 * 48_000, 12 * 48_000]
    assert all(point.low < point.pass_at_1 < point.high for point in curve)


def test_costs_that_were_not_logged_are_unknown(run_path):
    (run_path / "metrics.jsonl").write_text('{"iteration": 1}\n{"iteration": 4}\n')
    curve = learning_curve(read_run(run_path))
    assert [point.elapsed_s for point in curve] == [0, None, None, None]
    assert main(["learning-curves", str(run_path)]) == 0


def test_an_evaluation_without_counts_has_no_interval(run_path):
    evaluation = {"pass@1": 0.5, "num_problems": 100, "samples_per_problem": 4}
    RunDir(run_path).write_evaluation(12, evaluation)
    last = learning_curve(read_run(run_path))[-1]
    assert (last.pass_at_1, last.low, last.high) == (0.5, None, None)
    assert main(["learning-curves", str(run_path)]) == 0


def test_the_table_holds_every_evaluation_of_every_run(two_run_paths, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["learning-curves", *map(str, two_run_paths), "--out", str(out)]) == 0
    names = ["learning_curves.csv", "learning_curves.png", "learning_curves.svg"]
    assert capsys.readouterr().out.split() == [str(out / name) for name in names]
    rows = list(csv.DictReader((out / names[0]).read_text().splitlines()))
    assert [(row["name"], row["iteration"]) for row in rows] == [
        (name, str(iteration)) for name in ("vine", "gae <b>") for iteration in (0, 4, 8, 12)
    ]
    evaluation = RunDir(two_run_paths[1]).read_evaluation(8)
    assert float(rows[6]["pass@1"]) == evaluation["pass@1"]
    assert (out / names[1]).read_bytes().startswith(b"\x89PNG")
    first = (out / names[2]).read_bytes()
    main(["learning-curves", *map(str, two_run_paths), "--out", str(out)])
    assert (out / names[2]).read_bytes() == first


def test_the_bootstrap_interval_is_that_of_the_normal_limit():
    rates_P = [0.0, 0.25, 0.5, 0.75, 1.0] * 80
    low, high = bootstrap_interval(rates_P, seed=0, num_resamples=4_000)
    half_width = 1.96 * np.std(rates_P) / math.sqrt(len(rates_P))
    assert low == pytest.approx(0.5 - half_width, abs=0.1 * half_width)
    assert high == pytest.approx(0.5 + half_width, abs=0.1 * half_width)
    assert bootstrap_interval(rates_P, seed=0) == bootstrap_interval(rates_P, seed=0)


def test_problems_and_not_samples_are_resampled():
    # Twice the samples of the same problems with the same rates tell nothing new.
    assert bootstrap_interval([0.0, 1.0] * 50, 0) == bootstrap_interval([0 / 8, 8 / 8] * 50, 0)
    assert bootstrap_interval([0.5] * 9, 0) == (0.5, 0.5)


def test_runs_are_told_apart_by_name_then_seed_then_directory(two_run_paths):
    vine, gae = map(read_run, two_run_paths)
    assert labels([vine, gae]) == ["vine", "gae <b>"]
    assert labels([vine, vine]) == [str(vine.path)] * 2


def break_directory(path):
    (path / "config.json").unlink()


def break_metrics(path):
    (path / "metrics.jsonl").write_text("")


def break_line(path):
    (path / "metrics.jsonl").write_text("{}\n")


def break_evaluations(path):
    for file in (path / "evaluations").iterdir():
        file.unlink()


def break_evaluation(path):
    RunDir(path).write_evaluation(8, {"num_problems": 1})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_directory, "{path} holds no run (no config.json)"),
        (break_metrics, "{path} has no metrics yet: metrics.jsonl holds no iteration"),
        (break_line, "{path}/metrics.jsonl, line 1 must be the metrics of an iteration"),
        (break_evaluations, "{path} has no evaluations yet"),
        (break_evaluation, "{path}: evaluation 8 has no 'pass@1'"),
    ],
)
def test_a_damaged_run_is_one_clear_line(run_path, capsys, damage, message):
    damage(run_path)
    assert main(["learning-curves", str(run_path)]) == 2
    assert capsys.readouterr().err == f"error: {message.format(path=run_path)}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learning-curves", "/nowhere"], "error: /nowhere is no directory\n"),
        (["learning-curves"], "error: the following arguments are required: RUN_DIR\n"),
        (["curves", "/"], "error: argument NAME: invalid choice: 'curves'"),
        (["report", "/", "--colour"], "error: unrecognized arguments: --colour\n"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_and_status_2(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_an_output_path_that_cannot_be_is_one_clear_line(run_path, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["learning-curves", str(run_path), "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith(
        f"error: cannot write {tmp_path}/file/learning_curves"
    )


def test_the_command_lists_the_analyses_and_reading_needs_no_torch():
    help_text = subprocess.check_output(
        [sys.executable, "-m", "analysis", "--help"], cwd=REPOSITORY, text=True
    )
    assert all(name in help_text for name in ANALYSES)
    code = "import sys, analysis.__main__, analysis.learning_curves; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=REPOSITORY) == b"False\n"
