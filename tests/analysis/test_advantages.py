"""Advantages by hand: their spread, their places, critical steps, redrawing, and bad input."""

import csv
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main, open_analysis
from analysis.notebooks import REPOSITORY
from analysis.truth import TruthState, truth_path, write_truth
from vineppo.run_dir import RunDir

FILES = (
    "advantages.csv", "advantages_quantiles.csv", "advantages_by_place.csv", "critical_steps.csv",
    "advantages.png",
)  # fmt: skip
NAME = str(REPOSITORY / "experiments/15_advantages/advantages.py")
MODULE = open_analysis(NAME)[0]
TABLES, draw_iteration, with_advantages = (
    MODULE.TABLES, MODULE.draw_iteration, MODULE.with_advantages
)  # fmt: skip
# Of conftest's run: three problems with a wrong and a right response of three steps each, whose
# Monte-Carlo values are 1/2, 3/4 and 0: advantages of 1/4, −3/4 and the reward.


def analyse(out, *arguments):
    assert main([NAME, f"--out={out}", *map(str, arguments)]) == 0
    read = {name: table.read(out) for name, table in TABLES.items() if table.holds(out)}
    return SimpleNamespace(**read)


def only(frame, **wanted):
    """The rows of a table, those that are wanted."""
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    assert len(frame), wanted
    return list(frame.itertuples())


@pytest.fixture
def tables(run_path, tmp_path):
    return analyse(tmp_path / "out", run_path)


def test_the_spread_by_hand(tables):
    for source in ("trained", "mc"):
        (every,) = only(tables.spread, source=source, group="all")
        assert (every.method, every.seed, every.iteration) == ("vine", 0, 12)
        assert (every.num_rollouts, every.num_steps) == (6, 18)
        assert (every.mean, every.mean_abs) == (0, 0.5)
        assert every.std == pytest.approx(np.std([0.25, -0.75, 0, 0.25, -0.75, 1]))
        # The last step of the wrong responses changes nothing.
        assert (every.near_zero, every.zero) == (3 / 18, 3 / 18)
        assert (every.near_zero_low, every.near_zero_high) == (3 / 18, 3 / 18)
        # 3/4 of 1 where it is wrong, 1 of 2 where it is right.
        assert (every.top_share, every.even_share) == (0.625, pytest.approx(1 / 3))
        (wrong,) = only(tables.spread, source=source, group="incorrect")
        (right,) = only(tables.spread, source=source, group="correct")
        assert (wrong.top_share, right.top_share) == (0.75, 0.5)
        assert (wrong.near_zero, right.near_zero) == (pytest.approx(1 / 3), 0)
        assert (wrong.num_critical_rollouts, right.num_critical_rollouts) == (3, 3)


def test_places_by_hand(tables):
    for axis, bins in (("start", (0, 1, 2)), ("end", (2, 1, 0)), ("relative", (0, 2, 4))):
        rows = only(tables.places, source="trained", group="all", axis=axis)
        by_bin = {row.bin: row for row in rows}
        assert sorted(by_bin) == sorted(bins)
        first, second, third = (by_bin[index] for index in bins)
        assert (first.mean, first.mean_abs) == (0.25, 0.25)
        assert (second.mean, second.mean_abs) == (-0.75, 0.75)
        assert (third.mean, third.near_zero, third.num_steps) == (0.5, 0.5, 6)
        # The critical step is the second of the wrong responses and the last of the right ones.
        assert [row.critical for row in (first, second, third)] == [0, 0.5, 0.5]
        assert [row.even for row in (first, second, third)] == pytest.approx([1 / 3] * 3)


def test_the_critical_steps_as_text(run_path, tmp_path):
    steps = only(analyse(tmp_path / "out", run_path, "--num-critical=2").critical)
    assert [(row.problem_id, row.rollout_index, row.step_index) for row in steps] == [
        ("sum/0", 1, 2), ("sum/1", 1, 2),
    ]  # fmt: skip
    assert (steps[0].value_before, steps[0].value_after, steps[0].reward) == (0, 1, 1)
    assert (steps[0].prompt, steps[0].step_text) == ("0+1?", "#1</s>")
    assert (steps[0].source, np.isnan(steps[0].true_before)) == ("mc", True)
    for path in (run_path / "final/policy").iterdir():
        path.unlink()
    bare = analyse(tmp_path / "bare", run_path).critical
    assert (len(bare), bare["value_before"][0]) == (3, 0)
    assert bare[["prompt", "step_text"]].isna().all(axis=None)


def test_true_values_of_a_prefix_are_those_of_every_rollout_that_passes_it(run_path, tmp_path):
    """All states of sum/0 are known, of sum/1 the last: it has advantages, no critical step."""
    states = [
        TruthState(
            checkpoint=11, rollout_iteration=12, problem_id=problem, rollout_index=0,
            step_index=step, num_steps=3, prefix_length=(0, 6, 11)[step], response_length=14,
            reward=0.0, num_samples=4, num_correct=num_correct, num_truncated=0, num_tokens=9,
            draws_D=(),
        )
        for problem, step, num_correct in
        (("sum/0", 0, 2), ("sum/0", 1, 1), ("sum/0", 2, 3), ("sum/1", 2, 1))
    ]  # fmt: skip
    write_truth(truth_path(tmp_path / "truth", run_path, 11), states)
    tables = analyse(tmp_path / "out", run_path, "--truth", tmp_path / "truth")
    (every,) = only(tables.spread, source="truth", group="all")
    # (−1/4, 1/2, −3/4) and (−1/4, 1/2, 1/4) of sum/0; −1/4 and 3/4 of sum/1.
    assert (every.num_steps, every.num_rollouts, every.num_critical_rollouts) == (8, 4, 2)
    assert every.mean == pytest.approx((-0.5 + 0.5 - 0.25 + 0.75) / 8)
    assert every.top_share == (0.75 / 1.5 + 0.5 / 1) / 2
    by_end = only(tables.places, source="truth", group="all", axis="end")
    assert [(row.bin, row.num_steps, row.critical) for row in by_end] == [
        (0, 4, 0.5), (1, 2, 0.5), (2, 2, 0),
    ]  # fmt: skip
    first, second, _ = only(tables.critical)
    assert (first.problem_id, first.true_before, first.true_after) == ("sum/0", 0.75, 1)
    assert (second.problem_id, second.true_before, second.true_after) == ("sum/1", 0.25, 1)


def write_critic(path, values_S):
    """The run's values as a critic's, the same for all its rollouts."""
    run = RunDir(path)
    rows = run.read_values(12)
    changed = [row | {"returns_K": [], "critic_value": values_S[row["step_index"]]} for row in rows]
    run.write_values(12, changed)


def test_a_critics_changes_of_value_are_apart_from_what_was_trained(run_path, tmp_path):
    write_critic(run_path, (0.5, 0.5, 0.25))
    tables = analyse(tmp_path / "out", run_path)
    assert set(tables.spread["source"]) == {"trained", "critic"}
    (right,) = only(tables.spread, source="critic", group="correct")
    # (0, −1/4, 3/4)
    assert (right.mean_abs, right.near_zero) == (1 / 3, 1 / 3)
    assert right.top_share == 0.75
    steps = tables.critical[["source", "step_index", "value_before"]].drop_duplicates()
    assert steps.values.tolist() == [["critic", 2, 0.25]]
    write_critic(run_path, (float("nan"), 0.5, 0.25))  # a critic that has diverged
    tables = analyse(tmp_path / "out", run_path)
    (right,) = only(tables.spread, source="critic", group="correct")
    assert (right.num_steps, right.num_critical_rollouts) == (6, 0)
    assert np.isnan(right.top_share)
    assert all(np.isnan(row.critical) for row in only(tables.places, source="critic", group="all"))


def without_values(path, advantages_S):
    """As a group estimator's: the same advantages in all rollouts, and no values."""
    run = RunDir(path)
    rows = [row | {"advantages_S": list(advantages_S)} for row in run.read_rollouts(12)]
    run.write_rollouts(12, rows)
    (path / "values/iter_000012.parquet").unlink()


@pytest.mark.parametrize(
    ("advantages", "shares"),
    [
        ((0.1, -0.4, 0.4), (0, 0.5, 0.5)),
        ((1.0, 0.995, 0.98), (0.5, 0.5, 0)),
        ((0.0, 0.01), None),
        ((0.9, float("nan")), None),
    ],
)
def test_shares_of_the_critical_step(advantages, shares):
    steps = pd.DataFrame({"rollout": 0, "num_steps": len(advantages)}, index=range(len(advantages)))
    known = with_advantages(steps, pd.Series(advantages), 0.05)
    expected = [np.nan] * len(known) if shares is None else shares
    np.testing.assert_array_equal(known["critical"], expected)


def test_the_tables_alone_give_the_same_files_and_need_no_torch(run_path, tmp_path, capsys):
    def files(out):
        return {name: (out / name).read_bytes() for name in FILES}

    out, again = tmp_path / "out", tmp_path / "again"
    analyse(out, run_path)
    assert capsys.readouterr().out.split() == [str(out / name) for name in FILES]
    code = (
        "import sys; from analysis.__main__ import main; status = main(sys.argv[1:]);"
        "assert not {'torch', 'vllm'} & sys.modules.keys(); sys.exit(status)"
    )
    command = [sys.executable, "-c", code, NAME, str(out), f"--out={again}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert files(out) == files(again)
    rows = list(csv.DictReader((out / "critical_steps.csv").read_text().splitlines()))
    assert rows[0]["step_text"] == "#1</s>"
