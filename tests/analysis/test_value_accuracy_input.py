"""Value accuracy: every bad input is one clear line."""

import shutil

import pytest
from support.accuracy_runs import states_of, table_of, write_tiny

from analysis.__main__ import main
from analysis.truth import read_truth, write_truth
from analysis.value_states import STATES_NAME, read_table, write_states
from vineppo.errors import UserError

OPTIONS = ["--continuations", "1,2"]


def refusal(capsys, arguments):
    assert main(["value-accuracy", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error.removeprefix("error: ").rstrip("\n")


@pytest.fixture
def run_path(tmp_path):
    return write_tiny(tmp_path / "run")


def rewrite_truth(path, **changes):
    states = read_truth(table_of(path))
    last = states[-1]
    write_truth(table_of(path), [*states[:-1], type(last)(**{**vars(last), **changes})])


def cut_off(file):
    file.write_bytes(file.read_bytes()[:-20])


def no_truth(path):
    shutil.rmtree(path / "analysis")


def cut_truth(path):
    cut_off(table_of(path))


def other_rollout(path):
    rewrite_truth(path, rollout_index=7)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (no_truth, "{path} has no ground truth; make it with: python -m analysis ground-truth"),
        (cut_truth, "{table} is no complete parquet file: "),
        (other_rollout, "{table} is of another run: its state ('b', 7, 1) is none of the"),
        (shutil.rmtree, "{path} is no directory"),
    ],
)
def test_a_damaged_run_is_one_clear_line(run_path, capsys, damage, message):
    damage(run_path)
    error = refusal(capsys, [run_path, *OPTIONS])
    assert error.startswith(message.format(path=run_path, table=table_of(run_path)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--continuations", "1,3"], "{table} has 2 draws a state, too few for --continuations"),
        (["--continuations", "0"], "argument --continuations: must be whole numbers from 1"),
        (["--continuations", "1,x"], "argument --continuations: must be whole numbers from 1"),
        (["--truth", "nowhere"], "--truth nowhere is no directory"),
    ],
)
def test_an_option_that_cannot_be_is_one_clear_line(run_path, capsys, options, message):
    error = refusal(capsys, [run_path, *options])
    assert error.startswith(message.format(path=run_path, table=table_of(run_path)))


def test_runs_that_do_not_go_together_are_one_clear_line(run_path, tmp_path, capsys):
    task = {"kind": "arithmetic", "modulus": 7}
    other = write_tiny(tmp_path / "other", name="ppo", task=task)
    assert refusal(capsys, [run_path, other, *OPTIONS]) == (
        f"{run_path} and {other} are runs of different tasks: task.modulus is 10 in the one and 7 "
        "in the other"
    )
    write_tiny(other, sampling={"temperature": 0.5}, seed=2)
    assert (
        "are both named vine and may differ in their seed alone, but sampling is missing"
        in refusal(capsys, [run_path, other, *OPTIONS])
    )
    write_tiny(other)
    assert refusal(capsys, [run_path, other, *OPTIONS]) == (
        f"{run_path} and {other} are both seed 1 of vine"
    )
    (tmp_path / "deep").mkdir()
    twin = write_tiny(tmp_path / "deep" / "run", name="ppo")
    assert "have one name; their tables would be one" in refusal(capsys, [run_path, twin, *OPTIONS])


@pytest.fixture
def table_path(run_path, tmp_path):
    """A directory with nothing but the table of the run."""
    write_states(
        tmp_path / "table" / STATES_NAME, states_of(run_path, predictors=("critic", "mc_2"))
    )
    return tmp_path / "table"


def test_a_table_that_is_damaged_or_does_not_fit_is_one_clear_line(
    run_path, table_path, tmp_path, capsys
):
    table = table_path / STATES_NAME
    states = read_table(table_path)
    assert refusal(capsys, [table_path, run_path, *OPTIONS]).startswith(
        f"{run_path} holds vine, which stands in another table or run too"
    )
    other = write_tiny(tmp_path / "other", name="ppo", task={"kind": "gsm8k"})
    assert refusal(capsys, [table_path, other, *OPTIONS]) == (
        f"{run_path} and {other} are runs of different tasks"
    )
    write_states(table, states[:0])
    assert refusal(capsys, [table_path]) == f"{table} holds no state"
    write_states(table, states)
    cut_off(table)
    assert refusal(capsys, [table_path]).startswith(f"{table} is no complete parquet file: ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_correct": 5}, "row 2: num_correct must be in 0..num_samples, from 2"),
        ({"prediction": float("inf")}, "row 2: prediction must be finite"),
        ({"method": None}, "row 2 has an empty cell"),
    ],
)
def test_a_row_that_cannot_be_is_named(table_path, changes, message):
    states = read_table(table_path).astype(object)
    for column, value in changes.items():
        states.loc[1, column] = value
    write_states(table_path / STATES_NAME, states)
    with pytest.raises(UserError, match=message):
        read_table(table_path)
