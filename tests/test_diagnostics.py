"""Value diagnostics: bins, their split by outcome, explained variance by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import LINES, rollout, terminal

from vineppo.credit.groups import GrpoCredit
from vineppo.run_dir import RunDir
from vineppo.value_diagnostics import (
    NUM_PERCENTILE_BINS,
    diagnostic_rows,
    percentile_bin,
)

GRPO = GrpoCredit("grpo", LINES, normalize_std=False)


def valued(reward, values_T, advantages_T=None):
    """A rollout with values and advantages of its tokens; its rewards to go are the reward."""
    valued_rollout = rollout(terminal(reward, len(values_T)), values_T)
    valued_rollout.tokens_T["advantages"] = values_T if advantages_T is None else advantages_T
    return valued_rollout


def rows_of(*rollouts):
    return diagnostic_rows(rollouts, "fed", GRPO)


def rows_of_two():
    """A correct response of 2 tokens and a wrong one of 4."""
    return rows_of(
        valued(1.0, (0.5, 0.75), (0.5, 0.25)),
        valued(0.0, (0.25, 0.5, 0.125, 0.0), (-0.25, -0.5, -0.125, 0.0)),
    )


def row(rows, axis, place, is_correct):
    (matching,) = [
        r for r in rows if (r["axis"], r["bin"], r["is_correct"]) == (axis, place, is_correct)
    ]
    return matching


@given(st.integers(1, 300))
def test_percentiles_are_20_equal_parts(length):
    bins = [percentile_bin(position, length) for position in range(length)]
    assert bins == sorted(bins)
    assert bins[0] == 0
    assert max(bins) < NUM_PERCENTILE_BINS
    assert percentile_bin(5, 10) == 10
    counts = [bins.count(i) for i in range(NUM_PERCENTILE_BINS)]
    assert max(counts) - min(counts) <= 1


def test_bins_by_position_and_by_percentile():
    columns_by_bin = {
        (r["axis"], r["bin"], r["is_correct"]): (r["values"], r["returns"], r["advantages"])
        for r in rows_of_two()
    }
    assert columns_by_bin == {
        ("position", 0, True): ((0.5,), (1.0,), (0.5,)),
        ("position", 1, True): ((0.75,), (1.0,), (0.25,)),
        ("position", 0, False): ((0.25,), (0.0,), (-0.25,)),
        ("position", 1, False): ((0.5,), (0.0,), (-0.5,)),
        ("position", 2, False): ((0.125,), (0.0,), (-0.125,)),
        ("position", 3, False): ((0.0,), (0.0,), (0.0,)),
        ("percentile", 0, True): ((0.5,), (1.0,), (0.5,)),
        ("percentile", 10, True): ((0.75,), (1.0,), (0.25,)),
        ("percentile", 0, False): ((0.25,), (0.0,), (-0.25,)),
        ("percentile", 5, False): ((0.5,), (0.0,), (-0.5,)),
        ("percentile", 10, False): ((0.125,), (0.0,), (-0.125,)),
        ("percentile", 15, False): ((0.0,), (0.0,), (0.0,)),
    }
    assert [r["count"] for r in rows_of_two()] == [1] * 12


def test_explained_variance_is_of_both_outcomes_together():
    """Position 0: returns (1, 0), errors (0.5, −0.25): 1 − 0.375²/0.5² = 0.4375; none at 3."""
    rows = rows_of_two()
    for is_correct in (True, False):
        explained = row(rows, "position", 0, is_correct)["explained_variance"]
        assert explained == pytest.approx(0.4375)
    assert row(rows, "position", 3, False)["explained_variance"] is None
    # Errors (0.25, −0.125) halve those at 0.
    assert row(rows, "percentile", 10, True)["explained_variance"] == pytest.approx(1 - 0.375**2)


def test_correct_is_a_reward_above_one_half():
    rows = rows_of(valued(0.5, [0]), valued(0.51, [1]))
    assert [r["values"] for r in rows if r["is_correct"]] == [(1,), (1,)]
    assert [r["values"] for r in rows if not r["is_correct"]] == [(0,), (0,)]


def test_the_rows_are_those_of_the_table(tmp_path):
    run = RunDir.open(tmp_path / "run", {"name": "x"})
    run.write_value_diagnostics(3, rows_of_two())
    (file,) = (tmp_path / "run").rglob("iter_000003.parquet")
    import pyarrow.parquet

    read = pyarrow.parquet.read_table(file).to_pylist()
    assert [{**r, **{k: list(r[k]) for k in ("values", "returns", "advantages")}}
            for r in rows_of_two()] == read  # fmt: skip
