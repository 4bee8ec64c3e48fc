"""Gradient variance: numbers by hand and by simulation, tables, redrawing, an engine."""

import csv
import math
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.sampled_runs import write_solved_run
from support.trained_runs import (
    NUM_PROMPTS,
    lasting_process_group,  # noqa: F401
    trained_path,  # noqa: F401
)

from analysis import gradient_variance
from analysis.__main__ import main
from analysis.gradient_variance import (
    GRADIENT_SCHEMA,
    Gradients,
    noise_rows,
    numbers,
    read_gradients,
)
from vineppo.errors import UserError
from vineppo.run_dir import write_parquet

FILES = ("gradient_variance.csv", "gradient_variance.png")


def make_table(rows_END, num_tokens_EN, time_s_EN=None, second_END=None, **about):
    rows = np.asarray(rows_END, float)
    halves = [rows, rows if second_END is None else np.asarray(second_END, float)]
    within_EN = np.square(halves[0] - halves[1]).sum(-1) / 2
    tokens_EN = np.asarray(num_tokens_EN, float)
    whose = {"run": "run", "method": "vine", "seed": 1, "checkpoint": 4, "rollout_iteration": 5}
    return Gradients(
        about=whose | {"num_problems": rows.shape[1]} | about,
        estimators=tuple(f"e{i}" for i in range(len(rows))),
        problem_ids=tuple(f"p{i}" for i in range(rows.shape[1])),
        num_tokens_EN=tokens_EN,
        time_s_EN=tokens_EN / 10 if time_s_EN is None else np.asarray(time_s_EN, float),
        adam_gains_EM=np.arange(1.0, 1 + len(rows) * (1 + rows.shape[1])).reshape(len(rows), -1),
        gram_ENN=np.mean([np.einsum("eid,ejd->eij", half, half) for half in halves], 0),
        within_EN=np.full(rows.shape[:2], np.nan) if second_END is None else within_EN,
    )


def write_gradients(path, table):
    about = {key: value for key, value in table.about.items() if key != "num_problems"}
    rows = [
        about
        | {
            "estimator": estimator,
            "problem_id": problem,
            "num_tokens": table.num_tokens_EN[e, n],
            "time_s": None if np.isnan(table.time_s_EN[e, n]) else table.time_s_EN[e, n],
            "adam_gain": table.adam_gains_EM[e, 0],
            "adam_gain_without": table.adam_gains_EM[e, 1 + n],
            "gram_N": table.gram_ENN[e, n],
            "within": None if np.isnan(table.within_EN[e, n]) else table.within_EN[e, n],
        }
        for e, estimator in enumerate(table.estimators)
        for n, problem in enumerate(table.problem_ids)
    ]
    write_parquet(path, rows, GRADIENT_SCHEMA)


def by_quantity(table):
    rows = noise_rows(table)
    return {(row.estimator, row.quantity): row for row in rows.itertuples()}


def test_the_numbers_of_two_problems_by_hand():
    # (1, 0) and (1, 2): tr Σ = 2, |E g|² = 1. The second estimator is (1, 1), (1, −1): tr Σ = 2,
    # |E g|² = 0.
    table = make_table([[[1, 0], [1, 2]], [[1, 1], [1, -1]]], [[100, 300], [400, 400]])
    found = numbers(table, np.ones(2))
    expected = {
        "e0/trace": 2, "e0/num_tokens": 200, "e0/time_s": 20, "e0/trace_tokens": 400,
        "e0/trace_time": 40, "e0/signal": 0.5, "e0/trace_ratio": 1, "e1/trace_ratio": 1,
        "e1/trace_tokens_ratio": 2, "e1/signal_ratio": 0,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected


def test_gains_are_those_of_tables_from_before_the_gain_of_all_problems_too(tmp_path):
    table = make_table([[[1, 0], [1, 2]]] * 2, [[100, 300], [400, 400]])
    path = tmp_path / "iter_000004.parquet"
    write_gradients(path, table)
    rows = by_quantity(read_gradients(path))
    # Of all problems 1 and 4, without one 2, 3 and 5, 6.
    gains = (4 * 1 - 2.5) / 3, (4 * 4 - 5.5) / 3
    assert rows["e0", "adam_gain"].value == pytest.approx(gains[0])
    assert rows["e1", "adam_gain_ratio"].value == pytest.approx(gains[1] / gains[0])
    pq.write_table(pq.read_table(path).drop_columns("adam_gain"), path)
    rows = by_quantity(read_gradients(path))
    assert rows["e0", "adam_gain"].value == 2.5
    assert rows["e1", "adam_gain_ratio"].value == 5.5 / 2.5


def test_halves_tell_noise_within_problems_from_the_spread_of_true_gradients():
    """50 weights: true gradients deviate by 2, the noise of the estimators by 1 and 3."""
    generator = np.random.default_rng(0)
    true_ND = generator.normal(0.5, 2, (400, 50))
    first_END, second_END = (
        [generator.normal(true_ND, deviation) for deviation in (1.0, 3.0)] for _ in range(2)
    )
    rows = by_quantity(make_table(first_END, np.ones((2, 400)), second_END=second_END))
    expected = {
        ("e0", "within"): 50, ("e0", "between"): 200, ("e0", "trace"): 250,
        ("e1", "within"): 450, ("e1", "between"): 200, ("e1", "within_ratio"): 9,
    }  # fmt: skip
    for key, value in expected.items():
        assert rows[key].value_low < value < rows[key].value_high
    assert rows["e1", "within_ratio"].value_high - rows["e1", "within_ratio"].value_low < 1


def test_the_limit_of_exact_values_follows_from_two_numbers_of_draws():
    rng = np.random.default_rng(0)
    noises = {"rloo": 4.0, "vine_1": 3.0, "vine_3": 1.0 + 2 / 3, "vine_9": 1.0 + 2 / 9}
    halves = [
        np.stack([rng.normal(0, np.sqrt(noise / 400), (400, 400)) for noise in noises.values()])
        for _ in range(2)
    ]
    table = make_table(halves[0], np.ones((4, 400)), second_END=halves[1])
    found = numbers(replace(table, estimators=tuple(noises)), np.ones(400))
    assert found["exact/within"] == pytest.approx(1.0, rel=0.03)
    assert found["exact/within_ratio"] == pytest.approx(0.25, rel=0.03)
    assert "exact/num_tokens" not in found


def test_a_table_survives_and_a_damaged_one_is_refused(tmp_path):
    table = make_table(
        [[[1, 0], [1, 2]], [[1, 1], [1, -1]]], [[1, 3], [4, 4]], [[1, 2], [math.nan, 5]]
    )
    path = tmp_path / "gradients/run/iter_000004.parquet"
    write_gradients(path, table)
    again = read_gradients(path)
    for field in ("num_tokens_EN", "time_s_EN", "adam_gains_EM", "gram_ENN", "within_EN"):
        np.testing.assert_array_equal(getattr(again, field), getattr(table, field))
    assert again.problem_ids == ("p0", "p1")
    assert again.about == table.about
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert main(["gradient-variance", str(tmp_path), f"--out={tmp_path / 'out'}"]) == 2
    write_gradients(path, replace(table, problem_ids=("p0", "p0")))
    with pytest.raises(UserError, match="every problem once for every estimator"):
        read_gradients(path)


def test_the_figure_is_redrawn_from_the_tables_and_from_the_csv_alone(tmp_path):
    generator = np.random.default_rng(0)
    tables = [generator.normal(0.5, 1.0, (3, 9, 4)) for _ in range(2)]
    for checkpoint, rows in enumerate(tables):
        table = make_table(rows, np.full((3, 9), 10.0), checkpoint=checkpoint)
        write_gradients(tmp_path / f"all/gradients/run/iter_{checkpoint:06d}.parquet", table)
    assert main(["gradient-variance", str(tmp_path / "all"), f"--out={tmp_path / 'all'}"]) == 0
    (tmp_path / "csv").mkdir()
    shutil.copy(tmp_path / "all" / FILES[0], tmp_path / "csv")
    assert main(["gradient-variance", str(tmp_path / "csv"), f"--out={tmp_path / 'again'}"]) == 0
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "all" / name).read_bytes()


def test_a_run_without_values_or_signal_has_numbers_and_no_figure(tmp_path, capsys):
    """Every rollout is right: RLOO's gradients are all zero, and nothing compares with them."""
    path = write_solved_run(tmp_path / "solved", num_problems=4)
    out = tmp_path / "out"
    command = ["gradient-variance", str(path), "--checkpoints=0", f"--out={out}"]
    assert main(command) == 0
    rows = read_rows(out)
    assert rows["rloo", "trace"]["value"] == "0.0"
    assert float(rows["reinforce_plus_plus", "trace"]["value"]) > 0
    assert rows["reinforce_plus_plus", "trace_ratio"]["value"] == ""
    assert not (out / FILES[1]).exists()
    capsys.readouterr()
    for options, message in (
        (["--estimators=gae"], "gae is not one of"),
        (["--estimators=vine_1"], "vine needs values or --continuations"),
        (["--problems=1"], "--problems must be at least 2"),
        (["--checkpoints=7"], "has no policy of iteration 7"),
        (["--seed=1"], "was made with seed 0"),
    ):
        target = f"--out={out if 'seed' in options[0] else tmp_path / 'other'}"
        assert main(["gradient-variance", str(path), "--checkpoints=0", target, *options]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert message in error
    table = path / "rollouts/iter_000001.parquet"
    table.write_bytes(table.read_bytes()[:200])
    assert main([*command[:3], f"--out={tmp_path / 'third'}"]) == 2
    assert "no complete parquet file" in capsys.readouterr().err


def read_rows(out):
    with (out / "gradient_variance.csv").open() as file:
        return {(row["estimator"], row["quantity"]): row for row in csv.DictReader(file)}


@pytest.mark.slow
@pytest.mark.usefixtures("lasting_process_group")
def test_with_an_engine_end_to_end(trained_path, tmp_path, monkeypatch):  # noqa: F811
    """The start's rollouts from the tables, those of the last policy sampled."""
    out = tmp_path / "out"
    command = ["gradient-variance", str(trained_path), "--checkpoints=0,2", "--continuations=2"]
    monkeypatch.setattr(gradient_variance, "NUM_RESAMPLES", 200)
    assert main([*command, f"--out={out}"]) == 0
    first, last = (read_gradients(out / f"gradients/tiny/iter_00000{i}.parquet") for i in (0, 2))
    assert [table.about["rollout_iteration"] for table in (first, last)] == [1, 3]
    assert last.estimators == (
        "rloo", "grpo", "reinforce_plus_plus", "remax", "gae", "vine_probe", "vine_asked",
        "vine_tuned", "vine_1", "vine_2",
    )  # fmt: skip
    assert last.gram_ENN.shape == (10, NUM_PROMPTS, NUM_PROMPTS)
    rloo, remax, k1, k2 = (last.num_tokens_EN[i].sum() for i in (0, 3, 8, 9))
    assert k2 - rloo == pytest.approx(2 * (k1 - rloo))
    assert rloo < remax < rloo + 64 * NUM_PROMPTS
    assert np.isnan(last.time_s_EN).all()  # "tuned" trains beside policy and critic
    sampled = pq.read_table(out / "sampled/tiny/iter_000002.parquet").to_pylist()
    assert {row["half"] for row in sampled} == {0, 1}
    assert {len(returns_K) for row in sampled for returns_K in row["returns_SK"]} == {2}
    assert all(len(row["returns_SK"]) == len(row["step_starts"]) for row in sampled)
    before = {name: (out / name).read_bytes() for name in FILES}
    monkeypatch.setattr("analysis.sampling.policies.open_policies", None)  # no engine is needed
    assert main([*command, f"--out={out}"]) == 0
    assert {name: (out / name).read_bytes() for name in FILES} == before


@pytest.mark.slow
@pytest.mark.usefixtures("lasting_process_group")
def test_trees_are_sampled_beside_the_rollouts(trained_path, tmp_path):  # noqa: F811
    names = "rloo,tree_4_2_2,tree_4_2_2_paper"
    command = ["gradient-variance", str(trained_path), "--checkpoints=0", "--continuations=1"]
    assert main([*command, f"--estimators={names}", f"--out={tmp_path}"]) == 0
    table = read_gradients(tmp_path / "gradients/tiny/iter_000000.parquet")
    assert table.estimators == tuple(names.split(","))
    rloo, unbiased, paper = table.num_tokens_EN
    assert (unbiased == paper).all()
    assert (unbiased != rloo).any()
    assert np.diagonal(table.gram_ENN[1]).sum() > 0
    assert (table.gram_ENN[1] != table.gram_ENN[2]).any()
