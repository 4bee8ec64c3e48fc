"""Learning curves: costs add up, intervals are right, damage is one clear line."""

import csv
import math
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.colors import to_rgb

from analysis import ANALYSES, estimators, figures, value_figures
from analysis.__main__ import main
from analysis.costs import cost_curve, draw_panel
from analysis.frames import learning_curve, read_run
from analysis.learning_curves import read_methods
from vineppo.run_dir import RunDir

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = (
    "learning_curves.png",
    "phases.png",
    "learning_curves.csv",
    "phases.csv",
    "equal_cost.csv",
    "summary.csv",
)


def test_every_evaluation_stands_beside_what_the_training_had_cost(run_path):
    curve = learning_curve(read_run(run_path))
    assert list(curve["iteration"]) == [0, 4, 8, 12]
    assert list(curve["elapsed_s"]) == [0, 40, 80, 120]
    # 8,000 tokens of rollouts and 40,000 of values an iteration
    assert list(curve["tokens_sampled"]) == [0, 4 * 48_000, 8 * 48_000, 12 * 48_000]
    assert ((curve["low"] < curve["pass@1"]) & (curve["pass@1"] < curve["high"])).all()


def test_equal_questions_are_drawn_together(run_path):
    """An interval is no narrower with a copy of every problem."""
    intervals = []
    for ids in ([str(n) for n in range(100)], [f"{n} same as {n % 100}" for n in range(200)]):
        counts_P = [0, 4] * (len(ids) // 2)
        evaluation = {"pass@1": 0.5, "num_problems": len(ids), "samples_per_problem": 4}
        RunDir(run_path).write_evaluation(
            12, evaluation | {"num_correct_P": counts_P, "problem_ids": ids}
        )
        last = learning_curve(read_run(run_path)).iloc[-1]
        intervals.append((last.low, last.high))
    assert intervals[0] == intervals[1]


def test_an_evaluation_without_counts_has_no_interval(run_path):
    evaluation = {"pass@1": 0.5, "num_problems": 100, "samples_per_problem": 4}
    RunDir(run_path).write_evaluation(12, evaluation)
    last = learning_curve(read_run(run_path)).iloc[-1]
    assert last["pass@1"] == 0.5
    assert math.isnan(last.low)
    assert math.isnan(last.high)
    assert main(["learning-curves", str(run_path)]) == 0


def test_the_table_holds_every_evaluation_of_every_run(two_run_paths, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["learning-curves", *map(str, two_run_paths), "--out", str(out)]) == 0
    assert capsys.readouterr().out.split() == [str(out / name) for name in FILES]
    rows = list(csv.DictReader((out / "learning_curves.csv").read_text().splitlines()))
    assert [(row["method"], row["seed"], row["iteration"]) for row in rows] == [
        (name, seed, str(iteration))
        for name, seed in (("vine", "0"), ("gae <b>", "1"))
        for iteration in (0, 4, 8, 12)
    ]
    evaluation = RunDir(two_run_paths[1]).read_evaluation(8)
    assert float(rows[6]["pass@1"]) == evaluation["pass@1"]
    assert (rows[6]["elapsed_s"], rows[6]["tokens_sampled"]) == ("80.0", str(8 * 48_000))
    assert (out / "learning_curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_runs_in_any_order_of_seeds_and_their_table_alone_give_the_same_files(
    methods_paths, tmp_path
):
    def files(*paths, out):
        assert main(["learning-curves", *map(str, paths), "--out", str(out)]) == 0
        return {name: (out / name).read_bytes() for name in FILES}

    first = files(*methods_paths, out=tmp_path / "out")
    assert files(*sorted(methods_paths[:5]), *methods_paths[5:], out=tmp_path / "other") == first
    assert files(tmp_path / "out", out=tmp_path / "again") == first
    assert files(tmp_path / "out", out=tmp_path / "out") == first  # over the table itself


def curves_of(paths, cost):
    rows, _ = read_methods(paths)
    return {name: cost_curve(group, cost) for name, group in rows.groupby("method", sort=False)}


def test_a_panel_has_one_line_a_method_through_the_interquartile_means(methods_paths):
    labels = {"vine": "a", "ppo": "b", "grpo": "c"}
    with figures.panels(1, 2) as (_, axes):
        for axis, cost in zip(axes, ("iteration", "tokens_sampled"), strict=True):
            curves = curves_of(methods_paths, cost)
            draw_panel(axis, cost, curves, labels, figures.method_styles(list(curves)))
        lines = axes[0].get_lines()
        assert [line.get_label() for line in lines] == ["a", "b", "c"]
        assert list(lines[0].get_xdata()) == [0, 4, 8, 12]
        assert list(lines[0].get_ydata()) == [0.25, 0.5, 0.5, 0.75]
        tokens = axes[1].get_lines()[1].get_xdata()
        assert list(tokens) == [192_000, 384_000, 576_000]  # 0 has no place on a log axis
        assert axes[1].get_xscale() == "log"


def test_a_method_has_one_colour_in_every_figure_and_so_has_each_of_its_variants():
    alone = figures.method_styles(["long_grpo", "demo_vineppo", "vineppo_k3"])
    others = figures.method_styles(["mine", "VinePPO, K = 3", "vineppo_k27", "other"])
    assert alone["demo_vineppo"]["color"].upper() == figures.COLORS[0]
    blues = [others[name]["color"] for name in ("VinePPO, K = 3", "vineppo_k27")]
    assert blues[0] == alone["vineppo_k3"]["color"] == estimators.color("vine_3")
    light, dark = (sum(to_rgb(blue)) for blue in blues)
    assert light > sum(to_rgb(figures.COLORS[0])) > dark
    assert value_figures.styles(["mc_3"])["mc_3"]["color"] == blues[0]
    free = {others[name]["color"] for name in ("mine", "other")}
    assert not free & set(figures.METHOD_COLORS.values())
    assert not set(figures.PHASE_COLORS) & set(figures.METHOD_COLORS.values())
    variants = [f"ppo_{variant}" for variant in ("bigger", "shared", "step", "vine")]
    assert len({style["color"] for style in figures.method_styles(variants).values()}) > 2


@pytest.mark.parametrize(
    ("run", "label"),
    [
        ("oracle", "lagging count of skills"),
        ("oracle_gae", "lagging count of skills, return less value"),
        ("vineppo_gae_k3", "VinePPO, return less value, K = 3"),
        ("ppo_t1.3", "PPO, T = 1.3"),
        ("group_mean", "K = 0"),
        ("restem", "RestEM"),
        ("dpo_steps_large", "DPO-positive, steps, 3 large batches"),
    ],
)
def test_a_run_reads_as_people_say_and_so_does_its_label(run, label):
    name = f"credit_short_{run}"
    assert figures.method_label(name) == figures.method_label(label) == label
    assert figures.setting_of(name) == "credit_short"
    of_name, of_label = (figures.method_styles([it])[it] for it in (name, label))
    assert of_name["color"] == of_label["color"]


def break_directory(path):
    (path / "config.json").unlink()


def break_metrics(path):
    (path / "metrics.jsonl").write_text("")


def break_evaluations(path):
    for file in (path / "evaluations").iterdir():
        file.unlink()


def break_evaluation(path):
    RunDir(path).write_evaluation(8, {"num_problems": 1})


def change_evaluation(**changes):
    def change(path):
        run_dir = RunDir(path)
        run_dir.write_evaluation(8, run_dir.read_evaluation(8) | changes)

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_directory, "{path} holds no run (no config.json)"),
        (break_metrics, "{path} has no metrics yet: metrics.jsonl holds no iteration"),
        (break_evaluations, "{path} has no evaluations yet"),
        (break_evaluation, "{path}: evaluation 8: pass@1 cannot be None"),
        (change_evaluation(**{"pass@1": 7}), "{path}: evaluation 8: pass@1 cannot be 7"),
        (
            change_evaluation(samples_per_problem=0),
            "{path}: evaluation 8: samples_per_problem cannot be 0",
        ),
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


def test_the_command_lists_the_analyses_and_reading_needs_neither_torch_nor_vllm():
    """Reading includes drawing again from tables alone."""
    help_text = subprocess.check_output(
        [sys.executable, "-m", "analysis", "--help"], cwd=REPOSITORY, text=True
    )
    assert all(name in help_text for name in ANALYSES)
    modules = ", ".join(f"analysis.{name.replace('-', '_')}" for name in ANALYSES)
    code = f"import sys, {modules}; print({{'torch', 'vllm'}} & sys.modules.keys())"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=REPOSITORY) == b"set()\n"
