"""Comparisons of two methods: by hand, against scipy, and in simulations with known effects."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp, ttest_ind

from analysis.stats import comparison
from analysis.stats.bootstrap import Estimate
from analysis.stats.comparison import (
    Comparison,
    Spread,
    World,
    components,
    coverage,
    crossed,
    paired,
    permutation_p,
    power,
    seeds_needed,
    spread,
    welch,
)

COVERAGE = pd.read_csv(
    Path(__file__).resolve().parents[3] / "experiments/10_interval_coverage/coverage.csv"
)
NUM_RUNS = 2000  # of the table
T_2 = 4.302653  # the 97.5 % quantile of t with two degrees of freedom


def numbers_of(comparison):
    effect = comparison.effect
    return effect.value, effect.low, effect.high, comparison.df, comparison.p_value


def test_the_examples_of_the_docstrings():
    half = T_2 * 0.1 / 3**0.5
    for found, value in (
        (welch((0.6, 0.7, 0.8), (0.5, 0.5, 0.5)), 0.2),
        (paired((0.6, 0.7, 0.8), (0.5, 0.5, 0.8)), 0.1),
    ):
        assert found.effect.value == pytest.approx(value)
        assert (found.effect.low, found.effect.high) == pytest.approx((value - half, value + half))
        assert found.df == pytest.approx(2)
    assert permutation_p((3, 4, 5), (0, 1, 2), is_paired=False) == 0.1
    assert permutation_p((3, 4, 5), (0, 1, 2), is_paired=True) == 0.25
    found = crossed(np.array([[0, 1], [0, 1]]), np.zeros((2, 2), int), 1)
    assert (found.effect.value, found.df) == (0.5, 1)
    assert found.effect.high - 0.5 == pytest.approx(12.7062 * 0.25**0.5, rel=1e-5)
    assert permutation_p((0.62, 0), (0, 0, 0.07), is_paired=False) == 0.4
    assert power(3, 2.5, Spread(1)) == pytest.approx(0.527, abs=5e-4)
    assert seeds_needed(1, Spread(1)) == 17
    assert seeds_needed(1, Spread(1, correlation=0.9)) == 4
    assert seeds_needed(9, Spread(0.01)) == 2


@pytest.mark.parametrize(("num_method", "num_baseline"), [(4, 5), (8, 8)])
def test_a_permutation_test_counts_the_assignments_that_are_as_far_apart(num_method, num_baseline):
    scores = np.random.default_rng(0).random(num_method + num_baseline)
    method, baseline = np.split(scores, [num_method])
    every = map(list, combinations(range(len(scores)), num_method))
    differences = [scores[i].mean() - np.delete(scores, i).mean() for i in every]
    far = np.abs(differences) >= abs(method.mean() - baseline.mean()) - 1e-12
    assert permutation_p(method, baseline, is_paired=False) == far.mean()
    assert permutation_p(baseline, method, is_paired=False) == far.mean()


@pytest.mark.parametrize("is_paired", [True, False])
def test_too_many_assignments_are_drawn(is_paired, monkeypatch):
    draw = np.random.default_rng(1)
    x, y = draw.normal(0.5, 1, 9), draw.normal(0, 1, 9)
    exact = permutation_p(x, y, is_paired=is_paired)
    monkeypatch.setattr(comparison, "MAX_ASSIGNMENTS", 100)
    assert permutation_p(x, y, is_paired=is_paired) == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, 0.9])
def test_the_interval_of_the_spread_knows_that_methods_share_their_seeds(correlation):
    draw, num_held = np.random.default_rng(6), 0
    for _ in range(500):
        shared_S, own_MS = draw.normal(size=8), draw.normal(size=(10, 8))
        scores_MS = correlation**0.5 * shared_S + (1 - correlation) ** 0.5 * own_MS
        found = components([dict(enumerate(scores_S)) for scores_S in scores_MS], 0.0).seed_sd
        num_held += found.low <= 1 <= found.high
    assert 0.88 < num_held / 500 < 0.98  # at 70 degrees of freedom 0.7 to 0.5 from 0.5 on


def test_what_gives_no_interval_or_cannot_be_compared():
    one = Comparison(Estimate(0.25, None, None))
    assert welch([0.75], [0.5]) == welch([0.75], [0.5, 0.5]) == paired([0.75], [0.5]) == one
    assert welch([0.75, 0.75], [0.5, 0.5]) == one
    assert crossed(np.array([[2, 1]]), np.array([[1, 1]]), 2) == one
    assert crossed(np.full((3, 2), 2), np.full((3, 2), 1), 4) == one
    with pytest.raises(ValueError, match="pairs must have as many seeds, got 2 and 3"):
        paired([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"counts must be \[S, P\] of the same, got"):
        crossed(np.ones((2, 3)), np.ones((2, 4)), 4)
    with pytest.raises(ValueError, match=r"counts must be \[S, P\] of the same, got"):
        crossed(np.ones((2, 3)), np.ones((3, 3)), 4)
    assert crossed(np.eye(3)[:2], np.eye(3), 4, is_paired=False).df == 1  # that of two seeds
    with pytest.raises(ValueError, match="seeds must be at least 2, got 1"):
        spread(np.ones((1, 3)), np.ones((1, 3)), 4)
    with pytest.raises(ValueError, match="the difference of two seeds must vary"):
        power(5, 0.1, Spread(0.1, correlation=1.0))
    with pytest.raises(ValueError, match="needs more than 10000 seeds"):
        seeds_needed(0.0, Spread(0.1))


def test_with_only_one_source_of_variance_the_crossed_interval_is_students():
    draw = np.random.default_rng(1)
    by_seed, by_problem = draw.integers(0, 9, (5, 1)), draw.integers(0, 9, 7)
    nothing = np.zeros((5, 7), int)
    of_seeds = crossed(by_seed + nothing, nothing, 8)
    expected = paired(by_seed[:, 0] / 8, np.zeros(5))
    assert numbers_of(of_seeds) == pytest.approx(numbers_of(expected))
    of_problems = crossed(by_problem + nothing, nothing, 8)
    result = ttest_1samp(by_problem / 8, 0)
    ends = result.confidence_interval(0.95)
    assert (of_problems.effect.low, of_problems.effect.high) == pytest.approx((ends.low, ends.high))
    assert (of_problems.df, of_problems.p_value) == pytest.approx((6, result.pvalue))
    # Independent seeds of one score each on all problems: Welch's.
    other = draw.integers(0, 9, (4, 1)) + np.zeros((4, 7), int)
    independent = crossed(by_seed + nothing, other, 8, is_paired=False)
    expected = welch(by_seed[:, 0] / 8, other[:, 0] / 8)
    assert numbers_of(independent) == pytest.approx(numbers_of(expected))


def test_an_effect_turns_and_shifts_with_the_methods_and_problems_may_be_in_any_order():
    draw = np.random.default_rng(2)
    method, baseline = draw.integers(0, 5, (2, 4, 9))
    found, turned = crossed(method, baseline, 8), crossed(baseline, method, 8)
    assert (found.effect.low, found.effect.high) == pytest.approx(
        (-turned.effect.high, -turned.effect.low)
    )
    order = draw.permutation(9)
    same = crossed(method[:, order], baseline[:, order], 8)
    assert numbers_of(same) == pytest.approx(numbers_of(found))
    shifted = crossed(method + 2, baseline, 8)
    assert shifted.effect.low == pytest.approx(found.effect.low + 0.25)


@pytest.mark.parametrize(
    ("correlation", "num_seeds", "delta"),
    [(None, 6, 0.03), (0.8, 6, 0.03), (None, 3, 0.05), (None, 2, 0.07)],
)
def test_the_power_is_the_share_of_simulated_tests_that_reject(correlation, num_seeds, delta):
    draw = np.random.default_rng(3)
    of = Spread(0.02, 0.01, correlation)
    shared = 0.02 * (correlation or 0) ** 0.5 * draw.normal(size=(40_000, num_seeds))
    own_sd = 0.02 * (1 - (correlation or 0)) ** 0.5
    x, y = (
        shared + own_sd * draw.normal(size=shared.shape) + 0.01 * draw.normal(size=shared.shape)
        for _ in range(2)
    )
    x = x + delta
    test = ttest_1samp(x - y, 0, axis=1)
    if correlation is None:
        test = ttest_ind(x, y, axis=1, equal_var=False)
    found = power(num_seeds, delta, of)
    assert 0.1 < found < 0.99
    assert np.mean(test.pvalue < 0.05) == pytest.approx(found, abs=4 * 0.5 / 40_000**0.5)
    fewest = seeds_needed(delta, of, 0.9)
    assert power(fewest - 1, delta, of) < 0.9 <= power(fewest, delta, of)


def test_the_spread_is_recovered_from_counts():
    draw = np.random.default_rng(4)
    world = World(seed_sd=0.03, cell_sd=0.0, correlation=0.6, num_problems=80, num_samples=4)
    counts, _ = world.draw(3000, draw)
    found = spread(*counts, 4)
    assert (found.seed_sd, found.correlation) == pytest.approx((0.03, 0.6), rel=0.08)
    # Rates of 0.2 to 0.8 have a mean variance of 0.22 to 0.24.
    assert found.noise_sd == pytest.approx((0.23 / 320) ** 0.5, rel=0.05)
    # Without it scores are told to spread by the noise of the evaluation as well.
    assert counts[1].mean(axis=1).std() / 4 > 1.25 * found.seed_sd


def test_intervals_cover_what_they_are_intervals_of():
    """A rerun agrees with the committed table, and pairs gain where seeds are alike."""
    draw = np.random.default_rng(5)
    rows = [row for n in (3, 8) for row in coverage(n, 250, draw)]
    table = COVERAGE.set_index(["num_seeds", "interval"])
    for row in rows:
        committed = table.loc[(row["num_seeds"], row["interval"])]
        for name in ("these_problems", "new_problems"):
            share = committed[name]
            error = (share * (1 - share) * (1 / 250 + 1 / NUM_RUNS)) ** 0.5
            assert row[name] == pytest.approx(share, abs=4 * error + 1e-3)
        assert row["width"] == pytest.approx(committed["width"], rel=0.2)
    alike = coverage(5, 400, draw, World(correlation=0.9), ("welch", "paired", "crossed, paired"))
    of_welch, of_pairs, of_both = alike
    assert of_pairs["these_problems"] == pytest.approx(0.95, abs=0.045)
    assert of_both["new_problems"] == pytest.approx(0.95, abs=0.045)
    assert of_pairs["width"] < 0.85 * of_welch["width"]


def test_the_committed_table_says_which_interval_to_trust():
    covers = COVERAGE.pivot(index="num_seeds", columns="interval")
    these, new = covers["these_problems"], covers["new_problems"]
    assert list(these.index) == [3, 5, 8, 10, 16]
    for name in ("welch", "paired"):
        assert these[name].between(0.93, 0.975).all()
        assert new[name][16] < 0.85  # more seeds do not tell of other problems
    for name in ("crossed", "crossed, paired"):
        assert new[name].between(0.93, 0.975).all()
    for name in ("bootstrap of means", "bootstrap of IQMs"):
        assert these[name][3] < 0.87
        assert these[name][16] > 0.9
