"""Methods as curves over KL, by hand: where they reach a level, what has no comparison."""

import pytest

from analysis.kl_efficiency import curves
from analysis.kl_efficiency.table import KlRow, check_measured_alike
from analysis.stats.seeds import iqm, iqm_difference
from vineppo.errors import UserError


def row(method, seed, iteration, kl, pass_at_1, **changes):
    estimate = {
        f"{name}_{end}": None
        for name in ("kl_per_token", "kl_per_sequence", "pass_at_1", "sample_pass_at_1")
        for end in ("low", "high")
    }
    cells = {
        "run_dir": f"runs/{method}_{seed}", "method": method, "seed": seed,
        "iteration": iteration, "kl_source": "exact", "kl_per_token": kl,
        "kl_per_sequence": 30 * kl, "pass_source": "samples", "pass_at_1": pass_at_1,
        "sample_pass_at_1": pass_at_1, "num_problems": 8, "samples_per_problem": 4,
        "response_length": 30.0, **estimate,
    }  # fmt: skip
    return KlRow(**cells | changes)


def method_rows(method, seed, kls, scores):
    points = enumerate(zip(kls, scores, strict=True))
    return [row(method, seed, 10 * i, kl, score) for i, (kl, score) in points]


def test_where_a_curve_first_reaches_a_kl():
    assert curves.crossing((0, 1, 3), (0.2, 0.6, 0.8), 2) == pytest.approx(0.7)
    assert curves.crossing((0, 1, 3), (0.2, 0.6, 0.8), 0) == 0.2
    assert curves.crossing((0, 1, 3), (0.2, 0.6, 0.8), 3) == 0.8
    assert curves.crossing((0, 2, 1, 3), (0.0, 1.0, 0.5, 0.7), 1.5) == 0.75  # not on its way back
    for level in (-0.1, 3.1):
        with pytest.raises(ValueError, match="level must be in"):
            curves.crossing((0, 1, 3), (0.2, 0.6, 0.8), level)


def test_methods_are_compared_at_the_kl_that_all_seeds_reach():
    vine = [(0.0, 0.2, 0.4), (0.0, 0.4, 0.8)]  # KL of two seeds; pass@1 grows by one a nat
    ppo = [(0.0, 0.25, 0.5), (0.0, 0.5, 0.4), (0.0, 0.3, 1.0)]  # and by a half
    rows = [
        r for s, kls in enumerate(vine) for r in method_rows("vine", s, kls, [0.1 + k for k in kls])
    ]
    rows += [
        r
        for s, kls in enumerate(ppo)
        for r in method_rows("ppo", s, kls, [0.1 + k / 2 for k in kls])
    ]
    methods = curves.group(rows)
    first, second = curves.efficiencies(methods, "kl_per_token")
    assert first.level == second.level == 0.4
    matched = first.matched.value, first.matched.low, first.matched.high
    assert matched == pytest.approx((0.5, 0.5, 0.5))
    assert second.matched.value == pytest.approx(0.3)
    assert first.difference is None
    assert second.difference.value == pytest.approx(-0.2)
    assert (second.difference.low, second.difference.high) == pytest.approx((-0.2, -0.2))
    assert first.gain_per_nat.value == pytest.approx(1)
    gains = [0.25 / 0.5, 0.2 / 0.4, 0.5 / 1.0]
    assert second.gain_difference.value == pytest.approx(iqm_difference(gains, [1, 1]).value)
    by_sequence = curves.efficiencies(methods, "kl_per_sequence")[1]
    assert by_sequence.level == pytest.approx(12)
    assert by_sequence.gain_per_nat.value == pytest.approx(0.5 / 30)
    point = curves.curve(methods[1])[1]
    assert point.iteration == 10
    assert point.kl_per_token == iqm([0.25, 0.5, 0.3])
    assert point.pass_at_1 == iqm([0.1 + k / 2 for k in (0.25, 0.5, 0.3)])


def test_what_has_no_comparison_has_none():
    alone = curves.group([row("vine", 1, 20, 0.4, 0.6), *method_rows("ppo", 1, (0, 0), (0.2, 0.3))])
    for one in curves.efficiencies(alone, "kl_per_token"):
        assert (one.level, one.matched, one.difference, one.gain_per_nat) == (None,) * 4
    rows = [*method_rows("vine", 1, (0, 1), (0.2, 0.3)), row("vine", 2, 0, 0.0, 0.2)]
    assert curves.group(rows)[0].iterations == [0]  # seed 2 has no more
    with pytest.raises(UserError, match="are both seed 1 of vine"):
        curves.group([*rows, row("vine", 1, 0, 0.0, 0.2, run_dir="elsewhere")])
    with pytest.raises(UserError, match="no checkpoint of a common iteration"):
        curves.group([row("vine", 1, 0, 0.0, 0.2), row("vine", 2, 10, 0.1, 0.2)])


def test_one_seed_has_its_intervals_over_problems():
    bounds = {"pass_at_1_low": 0.25, "pass_at_1_high": 0.75}
    (point,) = curves.curve(curves.group([row("vine", 1, 0, 0.0, 0.5, **bounds)])[0])
    assert (point.pass_at_1.low, point.pass_at_1.high) == (0.25, 0.75)


def test_what_is_measured_differently_is_not_drawn_together():
    first = row("vine", 1, 0, 0.0, 0.5)
    logged = [row("ppo", 1, 0, 0.0, 0.5, kl_source=f"kl/ref ({name})") for name in ("k1", "k3")]
    check_measured_alike([first, row("ppo", 1, 0, 0.0, 0.5)])
    check_measured_alike(logged)  # estimates of one KL
    with pytest.raises(UserError, match="differently: by exact in the one and kl/ref"):
        check_measured_alike([first, *logged])
    evaluated = row("ppo", 1, 0, 0.0, 0.5, pass_source="evaluation (temperature 1, top_p 1)")
    with pytest.raises(UserError, match="by samples in the one and evaluation"):
        check_measured_alike([first, evaluated])
