"""Isotonic fits, proper scores and their CORP parts, reliability diagrams."""

import math

import numpy as np
import pytest

from analysis.stats.bootstrap import bootstrap_weights, reflected
from analysis.stats.calibration import (
    Bin,
    binned,
    brier,
    clipped,
    confidence_band,
    consistency_band,
    corp,
    corp_curve,
    evaluate,
    isotonic_fit,
    log_score,
)
from vineppo.metrics import calibration_error


def max_min(values, weights):
    """f_i = max over j ≤ i of the min over k ≥ i of the weighted mean of j … k."""
    num = len(values)
    return [
        max(
            min(np.average(values[j : k + 1], weights=weights[j : k + 1]) for k in range(i, num))
            for j in range(i + 1)
        )
        for i in range(num)
    ]


def test_the_examples_of_the_docstrings():
    assert evaluate(np.array([0, 1]), np.array([0.2, 0.6]), np.array([0.5, 2, -1])) == (
        pytest.approx([0.4, 0.6, 0.2])
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_that_of_the_max_min_formula(seed):
    draw = np.random.default_rng(seed)
    predictions, truth, weights = draw.permutation(12) / 12, draw.random(12), draw.uniform(1, 5, 12)
    points, fitted = isotonic_fit(predictions, truth, weights)
    order = np.argsort(predictions)
    assert points == pytest.approx(predictions[order])
    assert fitted == pytest.approx(max_min(truth[order], weights[order]))
    assert np.all(np.diff(fitted) >= 0)
    assert np.average(fitted, weights=weights[order]) == pytest.approx(
        np.average(truth, weights=weights)
    )


def test_weights_are_copies_and_no_weight_is_no_state():
    draw = np.random.default_rng(9)
    predictions, truth = draw.integers(0, 8, 30) / 8, draw.random(30)
    weights = draw.integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weights)
    for one, other in zip(
        isotonic_fit(predictions, truth, weights),
        isotonic_fit(predictions[rows], truth[rows], np.ones(len(rows))),
        strict=True,
    ):
        assert one == pytest.approx(other)
    with pytest.raises(ValueError, match="weights_N must hold a positive weight"):
        isotonic_fit(predictions, truth, np.zeros(30))


SCORES = [brier, log_score]


def test_the_examples_of_the_docstrings_of_scoring_rules():
    assert brier(np.array([0.5, 0.5, 0.75]), np.array([0, 0.3, 0.5])).tolist() == [
        0.25,
        0.25,
        0.3125,
    ]
    assert log_score(np.array(0.5), np.array(0.2)) == pytest.approx(math.log(2))
    assert clipped(np.array([-0.1, 0.5, 1]), 0.05).tolist() == [0.05, 0.5, 0.95]
    parts = corp(brier, np.array([0.25, 0.75]), np.array([0, 4]), 4, np.ones(2))
    assert (parts.score, parts.miscalibration) == (1 / 16, 1 / 16)
    assert (parts.discrimination, parts.uncertainty) == (0.25, 0.25)


@pytest.mark.parametrize("score", SCORES)
def test_a_score_is_the_mean_over_the_returns_and_proper(score):
    returns = np.array([1, 1, 0, 1, 0])
    by_return = score(np.full(5, 0.3), returns.astype(float))
    assert score(np.array(0.3), np.array(0.6)) == pytest.approx(by_return.mean())
    grid = np.linspace(0.01, 0.99, 99)
    assert grid[np.argmin(score(grid, np.full(99, 0.6)))] == pytest.approx(0.6)


def test_logarithms_are_those_of_the_definition_and_infinite_where_refuted():
    assert log_score(np.array(0.2), np.array(0.75)) == pytest.approx(
        -0.75 * math.log(0.2) - 0.25 * math.log(0.8)
    )
    assert log_score(np.array([0, 1, 0]), np.array([0, 1, 0.5])).tolist() == [0, 0, math.inf]


def random_states(seed, num=200):
    draw = np.random.default_rng(seed)
    p_N = draw.beta(0.8, 0.8, num)
    predictions_N = clipped(np.round(p_N + 0.2 * draw.normal(size=num), 1), 0.02)
    return predictions_N, draw.binomial(32, p_N), draw.integers(0, 4, num)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("seed", range(4))
def test_the_parts_add_up_and_none_is_negative(score, seed):
    predictions_N, counts_N, weights_N = random_states(seed)
    parts = corp(score, predictions_N, counts_N, 32, weights_N)
    assert parts.score == pytest.approx(
        parts.miscalibration - parts.discrimination + parts.uncertainty, abs=1e-12
    )
    assert parts.score == pytest.approx(
        np.average(score(predictions_N, counts_N / 32), weights=weights_N), abs=1e-12
    )
    assert parts.miscalibration > 0
    assert parts.discrimination > 0
    base_rate = np.average(counts_N / 32, weights=weights_N)
    entropy = -base_rate * math.log(base_rate) - (1 - base_rate) * math.log(1 - base_rate)
    expected = base_rate * (1 - base_rate) if score is brier else entropy
    assert parts.uncertainty == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_a_monotone_change_of_predictions_changes_only_their_calibration(score):
    predictions_N, counts_N, weights_N = random_states(5)
    one = corp(score, predictions_N, counts_N, 32, weights_N)
    other = corp(score, predictions_N**3, counts_N, 32, weights_N)
    assert other.discrimination == pytest.approx(one.discrimination, abs=1e-12)
    assert other.miscalibration > one.miscalibration + 0.01


@pytest.mark.parametrize("score", SCORES)
def test_constant_predictions_do_not_discriminate(score):
    _, counts_N, weights_N = random_states(6)
    parts = corp(score, np.full(200, 0.3), counts_N, 32, weights_N)
    assert parts.discrimination == pytest.approx(0, abs=1e-12)
    assert parts.miscalibration == pytest.approx(parts.score - parts.uncertainty, abs=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_calibrated_predictions_have_no_miscalibration_but_what_the_fit_makes(score):
    draw = np.random.default_rng(7)
    counts_N = draw.integers(1, 32, 50)
    exact = corp(score, counts_N / 32, counts_N, 32, np.ones(50))
    assert exact.miscalibration == pytest.approx(0, abs=1e-12)
    assert exact.discrimination > 0.01
    found = []
    for num in (200, 20_000):
        p_N = draw.uniform(0.1, 0.9, num)
        # Right on average, though every state differs from its prediction.
        at_N = np.clip(p_N + draw.uniform(-0.1, 0.1, num), 0, 1)
        found.append(corp(score, p_N, draw.binomial(32, at_N), 32, np.ones(num)).miscalibration)
    assert 0 < found[1] < found[0] / 3
    assert found[1] < 4e-4
    shifted = corp(score, np.clip(p_N + 0.1, 0, 1), draw.binomial(32, p_N), 32, np.ones(num))
    assert shifted.miscalibration > 30 * found[1]


def test_weights_are_copies_and_returns_count_alike():
    predictions_N, counts_N, weights_N = random_states(8)
    rows = np.repeat(np.arange(200), weights_N)
    one = corp(brier, predictions_N, counts_N, 32, weights_N)
    other = corp(brier, predictions_N[rows], counts_N[rows], 32, np.ones(len(rows)))
    assert one.miscalibration == pytest.approx(other.miscalibration, abs=1e-12)
    # One state of 8 returns is two states of 4 that have the same prediction.
    whole = corp(brier, np.array([0.2, 0.7]), np.array([3, 3]), np.array([8, 4]), np.ones(2))
    parts = corp(brier, np.array([0.2, 0.2, 0.7]), np.array([1, 2, 3]), 4, np.ones(3))
    assert (whole.score, whole.discrimination) == pytest.approx((parts.score, parts.discrimination))


def clustered_states(draw, num_problems, strength, num_states=6):
    """Predictions q of states with the mean value ½ + strength·(q − ½), alike within problems."""
    shape = num_problems, num_states
    q = draw.uniform(0.25, 0.75, (num_problems, 1)) + draw.uniform(-0.1, 0.1, shape)
    off = 0.1 * draw.choice([-1, 1], (num_problems, 1)) + 0.05 * draw.choice([-1, 1], shape)
    counts = draw.binomial(64, 0.5 + strength * (q - 0.5) + off)
    return q.ravel(), counts.ravel(), np.repeat(np.arange(num_problems), num_states)


@pytest.mark.parametrize(("strength", "most_of_percentiles"), [(1.0, 0.2), (0.5, 0.9)])
def test_the_reflected_interval_of_miscalibration_covers_it_where_percentiles_do_not(
    strength, most_of_percentiles
):
    """Of calibrated predictions and of some that are twice too far from the middle."""
    draw = np.random.default_rng(10)

    def miscalibration(q, counts, weights_N):
        return corp(brier, q, counts, 64, weights_N).miscalibration

    q, counts, _ = clustered_states(draw, 20_000, strength)
    truth = miscalibration(q, counts, np.ones(len(q)))
    num_runs, num_plain, num_reflected = 60, 0, 0
    for _ in range(num_runs):
        q, counts, problem_N = clustered_states(draw, 40, strength)
        plain = bootstrap_weights(
            lambda weights_N, q=q, counts=counts: {"mcb": miscalibration(q, counts, weights_N)},
            problem_N, draw, num_resamples=80, level=0.95,
        )["mcb"]  # fmt: skip
        basic = reflected(plain, least=0.0)
        num_plain += plain.low <= truth <= plain.high
        num_reflected += basic.low <= truth <= basic.high
    # Short of 95 % near 0, which is the least that there is; a standard error of 5 points.
    assert num_reflected / num_runs > 0.7
    assert num_plain / num_runs < most_of_percentiles


def test_predictions_that_are_no_probabilities_are_refused():
    with pytest.raises(ValueError, match=r"predictions_N must be in \[0, 1\]"):
        corp(brier, np.array([0.5, 1.1]), np.array([1, 2]), 4, np.ones(2))
    with pytest.raises(ValueError, match="the score must be finite: clip the predictions"):
        corp(log_score, np.array([0.5, 0.0]), np.array([1, 2]), 4, np.ones(2))
    with pytest.raises(ValueError, match=r"margin must be in \[0, 0.5\), got 0.5"):
        clipped(np.array([0.5]), 0.5)


AT = np.linspace(0.15, 0.85, 8)


def test_the_examples_of_the_docstrings_of_reliability_diagram():
    points, truth = corp_curve(np.array([0.2, 0.5, 0.5, 0.8]), np.array([2, 0, 2, 5]), 5)
    assert points.tolist() == [0.2, 0.5, 0.8]
    assert truth == pytest.approx([0.8 / 3, 0.8 / 3, 1])
    assert binned(np.array([0, 0.25, 1]), np.array([0, 2, 4]), 4, 2) == [
        Bin(2, 0.125, 0.25),
        Bin(1, 1, 1),
    ]
    draw = np.random.default_rng(0)
    at, settings = np.array([0.0, 1.0]), {"num_resamples": 20, "level": 0.9}
    for bound in consistency_band(at, 8, at, draw, **settings):
        assert bound.tolist() == [0, 1]
    halves = np.full(6, 0.5), np.full(6, 2), 4, np.arange(6), np.array([0.5])
    assert [b.tolist() for b in confidence_band(*halves, draw, **settings)] == [[0.5], [0.5]]


def test_bins_hold_every_state_once_and_what_lies_outside_in_the_outermost():
    predictions = np.array([-0.2, 0.0, 0.1, 0.5, 0.99, 1.0, 1.3])
    bins = binned(predictions, np.arange(7), 8, 10)
    expected = [(2, -0.1), (1, 0.1), (1, 0.5), (3, 3.29 / 3)]
    assert [(one.num_states, one.prediction) for one in bins] == [
        (number, pytest.approx(mean)) for number, mean in expected
    ]
    assert sum(one.truth * one.num_states for one in bins) == pytest.approx(21 / 8)
    # 0.29 · 100 is less than 29 in floating point.
    assert len(binned(np.array([0.285, 0.29]), np.array([1, 1]), 4, 100)) == 2


def test_the_calibration_error_that_training_logs_is_of_these_bins():
    draw = np.random.default_rng(0)
    predictions, outcomes = draw.uniform(-0.2, 1.2, 200).round(1), draw.integers(0, 2, 200)
    bins = binned(predictions, outcomes, 1, 10)
    expected = sum(one.num_states * abs(one.prediction - one.truth) for one in bins) / 200
    assert calibration_error(predictions, outcomes) == pytest.approx(expected)


def test_the_consistency_band_holds_the_curve_of_predictions_that_are_the_values():
    draw = np.random.default_rng(1)
    settings = {"num_resamples": 200, "level": 0.9}
    values_N = draw.uniform(0, 1, 100)
    low, high = consistency_band(values_N, 16, AT, draw, **settings)
    assert np.all((low < AT) & (high > AT))
    curves = np.array(
        [np.interp(AT, *corp_curve(values_N, draw.binomial(16, values_N), 16)) for _ in range(1000)]
    )
    coverage = np.mean((low <= curves) & (curves <= high))
    assert coverage == pytest.approx(0.9, abs=0.03)
    # Predictions that are too extreme leave it.
    extreme_N = np.clip(0.5 + 1.8 * (values_N - 0.5), 0, 1)
    curve = np.interp(AT, *corp_curve(extreme_N, draw.binomial(16, values_N), 16))
    low, high = consistency_band(extreme_N, 16, AT, draw, **settings)
    assert curve[0] > high[0]
    assert curve[-1] < low[-1]


def test_the_confidence_band_knows_that_states_of_a_problem_are_alike():
    draw = np.random.default_rng(2)
    problem_N = np.repeat(np.arange(80), 8)
    predictions_N = np.clip(draw.uniform(0, 1, 80)[problem_N] + 0.02 * draw.normal(size=640), 0, 1)
    values_N = np.clip(predictions_N + 0.2 * draw.normal(size=80)[problem_N], 0, 1)
    counts_N = draw.binomial(64, values_N)
    settings = {"num_resamples": 200, "level": 0.9}
    low, high = confidence_band(predictions_N, counts_N, 64, problem_N, AT, draw, **settings)
    alone = confidence_band(predictions_N, counts_N, 64, np.arange(640), AT, draw, **settings)
    curve = np.interp(AT, *corp_curve(predictions_N, counts_N, 64))
    assert np.all((low <= curve) & (curve <= high))
    assert np.mean(high - low) > 1.5 * np.mean(alone[1] - alone[0])
    # That every prediction were the value of its state is refuted, though they are calibrated.
    consistent = consistency_band(predictions_N, 64, AT, draw, **settings)
    assert np.mean(consistent[1] - consistent[0]) < 0.6 * np.mean(high - low)
