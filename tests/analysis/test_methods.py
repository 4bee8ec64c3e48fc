"""Runs become methods: what is grouped, what is refused, and what a group's numbers are."""

import json
import shutil

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.costs import cost_curve
from analysis.learning_curves import read_methods, summarize, write_tables
from analysis.stats.bootstrap import Estimate
from analysis.tables import estimate


def edit_config(path, **changes):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | changes))


def refusal(capsys, *paths):
    assert main(["learning-curves", *map(str, paths)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error.removeprefix("error: ").rstrip("\n")


def table_of(paths, out):
    rows, phases = read_methods(paths)
    write_tables(rows, phases, out)
    return out


def methods_of(*paths):
    return list(read_methods(paths)[0]["method"].unique())


def test_runs_are_grouped_by_name_in_order_of_sight_and_seeds_ascend(methods_paths):
    rows, _ = read_methods(methods_paths)
    seeds = rows.groupby("method", sort=False)["seed"].unique()
    assert {name: list(numbers) for name, numbers in seeds.items()} == {
        "vine": [1, 2, 3, 4, 5],
        "ppo": [1, 2, 3],
        "grpo": [7],
    }
    ends = rows[(rows["method"] == "vine") & (rows["iteration"] == 12)]
    assert list(ends["pass@1"]) == [0.75, 0.625, 0.5, 0.875, 1.0]


def test_costs_are_means_over_seeds_and_unknown_where_one_is(methods_paths):
    slow = methods_paths[5] / "metrics.jsonl"
    rows = [json.loads(line) for line in slow.read_text().splitlines()]
    rows = [row | {"time/elapsed_s": 4 * row["time/elapsed_s"]} for row in rows]
    slow.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (ppo,) = summarize(read_methods(methods_paths[5:8])[0]).to_dict("records")
    assert (ppo["elapsed_s"], ppo["tokens_sampled"]) == ((4 + 1 + 1) * 120 / 3, 576_000)
    del rows[11]["time/elapsed_s"]
    slow.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert summarize(read_methods(methods_paths[5:8])[0])["elapsed_s"].isna().all()


def test_iterations_that_a_running_seed_has_not_reached_are_left_out(methods_paths):
    (methods_paths[0] / "evaluations" / "iter_000012.json").unlink()
    rows, _ = read_methods(methods_paths[:5])
    assert list(cost_curve(rows, "iteration")["cost"]) == [0, 4, 8]
    assert summarize(rows)["last_iteration"].item() == 8


def test_runs_of_one_name_may_differ_in_their_seed_alone(methods_paths, capsys):
    first, second = methods_paths[:2]
    edit_config(second, credit={"kind": "vine", "num_continuations": 9})
    assert refusal(capsys, first, second) == (
        f"{first} and {second} are both named vine and may differ in their seed alone, but "
        "credit.num_continuations is missing in the one and 9 in the other"
    )


def test_runs_on_the_problems_of_different_tasks_are_refused(methods_paths, capsys):
    first, other = methods_paths[0], methods_paths[5]
    task = {"kind": "arithmetic", "max_operations": 6, "num_train_problems": 8, "grading": {}}
    edit_config(first, task=task)
    edit_config(other, task=task | {"num_train_problems": 9, "grading": {"num_workers": 1}})
    assert methods_of(first, other) == ["vine", "ppo"]
    edit_config(other, task=task | {"max_operations": 12})
    assert refusal(capsys, first, other) == (
        f"{first} and {other} are tested on different problems: task.max_operations is 6 in the "
        "one and 12 in the other"
    )


def test_runs_that_are_evaluated_at_different_temperatures_are_refused(methods_paths, capsys):
    first, other = methods_paths[0], methods_paths[5]
    evaluation = {"every": 4, "temperature": 1.0, "top_p": 1.0}
    edit_config(first, evaluation=evaluation)
    edit_config(other, evaluation=evaluation | {"every": 2})
    assert methods_of(first, other) == ["vine", "ppo"]
    edit_config(other, evaluation=evaluation | {"temperature": 0.35})
    assert refusal(capsys, first, other) == (
        f"{first} and {other} are evaluated differently: evaluation.temperature is 1.0 in the one "
        "and 0.35 in the other"
    )


def test_a_seed_given_twice_is_refused(methods_paths, tmp_path, capsys):
    shutil.copytree(methods_paths[0], tmp_path / "copy")
    assert refusal(capsys, methods_paths[0], tmp_path / "copy") == (
        f"{methods_paths[0]} and {tmp_path}/copy are both seed 3 of vine"
    )
    edit_config(tmp_path / "copy", seed=None)
    assert refusal(capsys, tmp_path / "copy") == f"{tmp_path}/copy: config.json has no seed"


def test_a_table_stands_beside_runs_of_other_methods_only(methods_paths, tmp_path, capsys):
    out = table_of(methods_paths[:5], tmp_path / "out")
    for mixed, whole in zip(
        read_methods([out, *methods_paths[5:]]), read_methods(methods_paths), strict=True
    ):
        pd.testing.assert_frame_equal(mixed, whole)
    for paths in ([out, methods_paths[0]], [methods_paths[0], out]):
        assert refusal(capsys, *paths) == (
            f"{paths[1]} holds vine, which stands in another table or run too; give either its "
            "table or its run directories"
        )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("method,", "name,", "{table} has no column method"),
        (",0.25,", ",high,", "{table} is no table of learning_curves.csv: "),
        (",7,0,", ",seven,0,", "{table} is no table of learning_curves.csv: "),
        (",0.25,", ",,", "{table} has an empty cell in column pass@1"),
    ],
)
def test_a_damaged_table_is_one_clear_line(methods_paths, tmp_path, capsys, old, new, message):
    table = table_of(methods_paths[-1:], tmp_path / "out") / "learning_curves.csv"
    table.write_text(table.read_text().replace(old, new, 1))
    assert refusal(capsys, table.parent).startswith(message.format(table=table))


def test_the_summary_by_hand(methods_paths):
    summary = summarize(read_methods(methods_paths)[0])
    vine, ppo, grpo = (row for _, row in summary.iterrows())
    assert (vine["start_pass@1"], vine["end_pass@1"]) == (0.25, 0.75)
    # 4 iterations each at means of 0.375, 0.5 and (0.5 + end)/2: the median seed ends at 0.75.
    assert vine.area == pytest.approx((0.375 + 0.5 + 0.625) / 3)
    assert estimate(vine, "difference") is None
    assert ppo.difference == pytest.approx(1.625 / 3 - 0.75)
    assert ppo.difference_low < ppo.difference < ppo.difference_high
    assert estimate(grpo, "difference") == Estimate(-0.25, None, None)
    assert estimate(grpo, "area").low is None
    assert (ppo.elapsed_s, ppo.tokens_sampled) == (120, 576_000)
