"""Value diagnostics: means and explained variance by hand, the table that redraws, and damage."""

import csv
import math
import random

import pyarrow.parquet as pq
import pytest
from support.rollouts import LINES, rollout, terminal

from analysis import figures
from analysis.__main__ import main
from analysis.value_diagnostics import PANELS, bin_rows, draw_run, read_tokens
from vineppo.credit.groups import GrpoCredit
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.value_diagnostics import diagnostic_rows

FILES = ("value_diagnostics.png", "value_diagnostics.svg", "value_diagnostics.csv")


def make_row(axis, index, is_correct, values):
    reward = float(is_correct)
    return {
        "axis": axis,
        "bin": index,
        "is_correct": is_correct,
        "count": len(values),
        "values": values,
        "returns": [reward] * len(values),
        "advantages": [reward - value for value in values],
        "explained_variance": None,
    }


def write_diagnostics(path, iteration, rows):
    RunDir(path).write_value_diagnostics(iteration, rows)


@pytest.fixture
def critic_path(run_path):
    """A critic that knows more later in the response and at later iterations; five tables."""
    for iteration in (0, 4, 8, 12, 16):
        rows = []
        for index in range(20):
            sure = index / 20 * iteration / 16
            rows.append(make_row("percentile", index, True, [0.5 + sure / 2] * 3))
            rows.append(make_row("percentile", index, False, [0.5 - sure / 2]))
            rows.append(make_row("position", index, True, [9.0]))  # another axis: never in sight
        write_diagnostics(run_path, iteration, rows)
    return run_path


def test_the_first_middle_and_last_iterations_by_hand(critic_path):
    rows = list(bin_rows(critic_path).itertuples())
    assert sorted({row.iteration for row in rows}) == [0, 8, 16]
    assert len(rows) == 3 * 20 * 3
    every, correct, incorrect = (
        row for row in rows if (row.iteration, row.bin) == (16, 10)
    )  # sure is 0.5: three values of 0.75 and a return of 1, one of 0.25 and a return of 0
    assert (every.num_tokens, correct.num_tokens, incorrect.num_tokens) == (4, 3, 1)
    assert (correct.value_mean, correct.return_mean, correct.advantage_mean) == (0.75, 1, 0.25)
    assert (incorrect.value_mean, incorrect.advantage_mean) == (0.25, -0.25)
    assert (every.value_mean, every.advantage_mean) == ((3 * 0.75 + 0.25) / 4, 0.125)
    # Errors 0.25 (three times) and −0.25 have a variance of 3/64, the returns one of 3/16.
    assert every.explained_variance == 0.75
    assert math.isnan(correct.explained_variance)
    assert math.isnan(incorrect.explained_variance)


def test_what_a_critic_run_writes_is_read_and_its_explained_variance_is_ours(run_path):
    generator = random.Random(0)
    rollouts = []
    for length, reward in ((7, 1.0), (40, 0.0), (33, 1.0), (90, 0.0)):
        values_T = [generator.random() for _ in range(length)]
        rollouts.append(rollout(terminal(reward, length), values_T))
        rollouts[-1].tokens_T["advantages"] = values_T
    rows = diagnostic_rows(rollouts, "fed", GrpoCredit("grpo", LINES, normalize_std=False))
    write_diagnostics(run_path, 4, rows)
    written = {row["bin"]: row["explained_variance"] for row in rows if row["axis"] == "percentile"}
    bins = bin_rows(run_path)
    ours = bins[bins["group"] == "all"].set_index("bin")
    assert len(written) == 20
    assert ours["explained_variance"].to_dict() == pytest.approx(written, abs=1e-6)
    assert ours["num_tokens"].sum() == 7 + 40 + 33 + 90


def test_tokens_without_a_finite_value_and_empty_bins_are_left_out(run_path):
    values = [0.5, float("nan"), 0.25, None]
    row = make_row("percentile", 3, True, [0.5] * 4) | {"values": values}
    write_diagnostics(run_path, 4, [row, make_row("percentile", 4, False, [])])
    by_bin = {(row.bin, row.group): row for row in bin_rows(run_path).itertuples()}
    assert (by_bin[3, "all"].num_tokens, by_bin[3, "all"].value_mean) == (2, 0.375)
    assert by_bin[4, "all"].num_tokens == 0
    assert math.isnan(by_bin[4, "all"].value_mean)
    assert math.isnan(by_bin[3, "incorrect"].advantage_mean)
    assert main(["value-diagnostics", str(run_path)]) == 0


def test_the_figure_shows_the_numbers_of_the_table(critic_path):
    with figures.panels(1, 3) as (_, axes):
        draw_run(axes, bin_rows(critic_path), list(PANELS))
        assert axes[0].get_title() == "vine, seed 0: iterations 0, 8, 16"
        values, advantages, explained = ([*axis.get_lines()] for axis in axes)
        assert [line.get_label() for line in values] == [
            f"{place} iteration, {group}"
            for place in ("first", "middle", "last")
            for group in ("correct", "incorrect")
        ]
        assert list(values[4].get_xdata()) == [2.5 + 5 * index for index in range(20)]
        expected = [0.5 + index / 40 for index in range(20)]
        assert list(values[4].get_ydata()) == pytest.approx(expected)
        assert list(advantages[5].get_ydata()) == pytest.approx([v - 1 for v in expected])
        # An error is (1 − sure) times the distance of its return from one half.
        last = explained[2].get_ydata()
        assert list(last) == pytest.approx([1 - (1 - index / 20) ** 2 for index in range(20)])


@pytest.mark.parametrize(("kept", "places"), [(1, ["first"]), (2, ["first", "last"])])
def test_a_young_run_shows_the_iterations_that_it_has(critic_path, kept, places):
    for table in sorted((critic_path / "value_diagnostics").iterdir())[kept:]:
        table.unlink()
    with figures.panels(1, 3) as (_, axes):
        draw_run(axes, bin_rows(critic_path), list(PANELS))
        labels = [line.get_label() for line in axes[0].get_lines()[::2]]
    assert labels == [f"{place} iteration, correct" for place in places]


def test_the_table_alone_gives_the_same_files(critic_path, tmp_path, capsys):
    def files(path, out):
        assert main(["value-diagnostics", str(path), "--out", str(out)]) == 0
        assert capsys.readouterr().out.split() == [str(out / name) for name in FILES]
        return {name: (out / name).read_bytes() for name in FILES}

    first = files(critic_path, tmp_path / "out")
    assert files(tmp_path / "out", tmp_path / "again") == first
    rows = list(csv.DictReader(first["value_diagnostics.csv"].decode().splitlines()))
    assert (rows[0]["name"], rows[0]["seed"], rows[0]["explained_variance"]) == ("vine", "0", "0.0")
    assert all(math.isfinite(float(row["value_mean"])) for row in rows)


def lack_column(path):
    table = path / "value_diagnostics" / "iter_000016.parquet"
    pq.write_table(pq.read_table(table).drop_columns("returns"), table)


def lose_numbers(path):
    rows = [make_row("percentile", 0, True, [0.5]), make_row("percentile", 1, True, [0.5, 1.0])]
    write_diagnostics(path, 16, [rows[0], rows[1] | {"advantages": [0.5]}])


def cut_off(path):
    table = path / "value_diagnostics" / "iter_000016.parquet"
    table.write_bytes(table.read_bytes()[:50])


def empty(path):
    write_diagnostics(path, 16, [])


def remove_all(path):
    for table in (path / "value_diagnostics").iterdir():
        table.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lack_column, "{table} has no column returns"),
        (lose_numbers, "{table}, row 2: advantages must hold `count` numbers"),
        (cut_off, "{table} is no complete parquet file: "),
        (empty, "{table} holds no row"),
        (remove_all, "{path} has no value_diagnostics/ (only runs with a critic write them)"),
    ],
)
def test_damage_is_one_clear_line(critic_path, capsys, damage, message):
    damage(critic_path)
    assert main(["value-diagnostics", str(critic_path)]) == 2
    error = capsys.readouterr().err
    table = critic_path / "value_diagnostics" / "iter_000016.parquet"
    assert error.startswith("error: " + message.format(path=critic_path, table=table))
    assert error.count("\n") == 1


def test_a_missing_table_and_a_run_without_a_critic_are_one_clear_line(critic_path, capsys):
    with pytest.raises(UserError, match=r"cannot read .*iter_000005\.parquet: No such file"):
        read_tokens(critic_path, 5)
    (critic_path / "config.json").unlink()
    assert main(["value-diagnostics", str(critic_path)]) == 2
    assert capsys.readouterr().err == f"error: {critic_path} holds no run (no config.json)\n"
