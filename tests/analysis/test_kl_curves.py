"""Methods as curves over KL, by hand: where they reach a level, what has no comparison."""

import pytest

from analysis.kl_efficiency import (
    POINTS,
    comparable,
    efficiencies,
    method_curves,
)
from analysis.stats.seeds import iqm, iqm_difference
from analysis.tables import estimate
from vineppo.errors import UserError


def row(method, seed, iteration, kl, score, **changes):
    cells = {
        "run_dir": f"runs/{method}_{seed}", "method": method, "seed": seed,
        "iteration": iteration, "kl_source": "exact", "kl_per_token": kl,
        "kl_per_sequence": 30 * kl, "pass_source": "samples", "pass@1": score,
        "sample_pass@1": score, "num_problems": 8, "samples_per_problem": 4,
        "response_length": 30.0,
    }  # fmt: skip
    return cells | changes


def points_of(rows):
    return comparable(POINTS.frame(rows))


def method_rows(method, seed, kls, scores):
    points = enumerate(zip(kls, scores, strict=True))
    return [row(method, seed, 10 * i, kl, score) for i, (kl, score) in points]


def test_methods_are_compared_at_the_kl_that_all_seeds_reach():
    vine = [(0.0, 0.2, 0.4), (0.0, 0.4, 0.8)]  # KL of two seeds; pass@1 grows by one a nat
    ppo = [(0.0, 0.25, 0.5), (0.0, 0.5, 0.4), (0.0, 0.3, 1.0)]  # and by a half
    rows = []
    for method, seeds, slope in (("vine", vine, 1), ("ppo", ppo, 0.5)):
        for seed, kls in enumerate(seeds):
            rows += method_rows(method, seed, kls, [0.1 + slope * kl for kl in kls])
    points = points_of(rows)
    first, second, *_, by_sequence = efficiencies(points).to_dict("records")
    assert first["level"] == second["level"] == 0.4
    matched = estimate(first, "matched")
    assert (matched.value, matched.low, matched.high) == pytest.approx((0.5, 0.5, 0.5))
    assert second["matched"] == pytest.approx(0.3)
    assert estimate(first, "difference") is None
    difference = estimate(second, "difference")
    ends = difference.value, difference.low, difference.high
    assert ends == pytest.approx((-0.2, -0.2, -0.2))
    assert first["gain_per_nat"] == pytest.approx(1)
    gains = [0.25 / 0.5, 0.2 / 0.4, 0.5 / 1.0]
    assert second["gain_difference"] == pytest.approx(iqm_difference(gains, [1, 1]).value)
    assert (by_sequence["kl"], by_sequence["method"]) == ("kl_per_sequence", "ppo")
    assert by_sequence["level"] == pytest.approx(12)
    assert by_sequence["gain_per_nat"] == pytest.approx(0.5 / 30)
    point = method_curves(points).to_dict("records")[4]
    assert (point["method"], point["iteration"]) == ("ppo", 10)
    assert estimate(point, "kl_per_token") == iqm([0.25, 0.5, 0.3])
    assert estimate(point, "pass@1") == iqm([0.1 + kl / 2 for kl in (0.25, 0.5, 0.3)])


def test_what_has_no_comparison_has_none():
    alone = points_of([row("vine", 1, 20, 0.4, 0.6), *method_rows("ppo", 1, (0, 0), (0.2, 0.3))])
    results = efficiencies(alone)
    assert len(results) == 4
    assert results[["level", "matched", "difference", "gain_per_nat"]].isna().all(axis=None)
    rows = [*method_rows("vine", 1, (0, 1), (0.2, 0.3)), row("vine", 2, 0, 0.0, 0.2)]
    assert set(points_of(rows)["iteration"]) == {0}  # seed 2 has no more
    with pytest.raises(UserError, match="are both seed 1 of vine"):
        points_of([*rows, row("vine", 1, 0, 0.0, 0.2, run_dir="elsewhere")])
    with pytest.raises(UserError, match="at no common iteration"):
        points_of([row("vine", 1, 0, 0.0, 0.2), row("vine", 2, 10, 0.1, 0.2)])


def test_what_is_measured_differently_is_not_drawn_together():
    first = row("vine", 1, 0, 0.0, 0.5)
    logged = [
        row("ppo", seed, 0, 0.0, 0.5, kl_source=f"kl/ref ({name})")
        for seed, name in enumerate(("k1", "k3"))
    ]
    assert len(points_of([first, row("ppo", 1, 0, 0.0, 0.5)])) == 2
    assert len(points_of(logged)) == 2  # estimates of one KL
    with pytest.raises(UserError, match="differently: by exact in the one and kl/ref"):
        points_of([first, *logged])
    evaluated = row("ppo", 1, 0, 0.0, 0.5, pass_source="evaluation (temperature 1, top_p 1)")
    with pytest.raises(UserError, match="by samples in the one and evaluation"):
        points_of([first, evaluated])
