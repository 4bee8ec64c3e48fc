import math
from itertools import combinations

import pytest

from vineppo.metrics import (
    calibration_error,
    evaluation_summary,
    explained_variance,
    importance_metrics,
    kl_metrics,
    logprob_gap_metrics,
    merged_grading,
    pass_at_k,
    reward_metrics,
    rollout_metrics,
    value_metrics,
    within_problem_correlation,
)
from vineppo.types import Problem, Rollout, StateValue, Turn


def rollout(problem, reward):
    return Rollout(
        problem=Problem(problem, "", ""), rollout_index=0, prompt_ids=(1,), response_ids=(2,),
        logprobs_T=(-0.1,), finish_reason="stop", text="", reward=reward,
    )  # fmt: skip


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 2), (6, 0, 3), (6, 6, 1), (7, 3, 4), (5, 4, 5)])
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(n, c, k):
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_evaluation_summary():
    summary = evaluation_summary([0, 3, 6], 6)
    assert set(summary) == {"pass@1", "pass@1_stderr", "pass@2", "pass@4", "pass@6"}
    assert summary["pass@1"] == pytest.approx(0.5)
    assert summary["pass@6"] == pytest.approx(2 / 3)
    # Sample deviation of (0, 0.5, 1) is 0.5; its mean's standard error 0.5/√3.
    assert summary["pass@1_stderr"] == pytest.approx(0.5 / math.sqrt(3))


def test_reward_metrics():
    rollouts = [rollout("a", 1.0), rollout("a", 1.0), rollout("b", 0.0), rollout("b", 1.0)]
    found = reward_metrics(rollouts)
    assert found["reward/mean"] == 0.75
    assert found["reward/std"] == pytest.approx(math.sqrt(0.1875))
    assert found["reward/group_all_equal_frac"] == 0.5


def test_value_metrics():
    found = value_metrics([StateValue((1.0, 0.0), 5), StateValue((1.0, 1.0), 0)], 2)
    assert found["values/mean"] == 0.75
    assert found["values/num_states"] == 2
    assert found["values/num_continuations"] == 2
    assert found["values/all_equal_frac"] == 0.5


def test_gap_and_kl_are_over_tokens_not_over_rollouts():
    short, long = rollout("a", 1.0), rollout("a", 1.0)
    short.logprobs_T, short.tokens_T["trainer_logprobs"] = (-1.0,), (-1.4,)
    long.logprobs_T, long.tokens_T["trainer_logprobs"] = (-1.0,) * 3, (-1.0,) * 3
    gap = logprob_gap_metrics([short, long])
    assert gap["rollout/engine_logprob_gap_mean"] == pytest.approx(0.1)
    assert gap["rollout/engine_logprob_gap_max"] == pytest.approx(0.4)
    kl = kl_metrics([[0.4], [0.0, 0.0, 0.0]], 0.001)
    assert kl["kl/ref"] == pytest.approx(0.1)
    assert kl["kl/ref_per_sequence"] == pytest.approx(0.2)


def weighted(weights, trained):
    return Rollout(
        problem=Problem("a", "", ""), rollout_index=0, prompt_ids=(1,),
        response_ids=(2,) * len(weights), logprobs_T=(-0.1,) * len(weights), finish_reason="stop",
        text="", tokens_T={"importance": weights, "is_trained": trained},
    )  # fmt: skip


def test_effective_share_of_importance_weights():
    """Tokens 1, 1 and 2 train: (1 + 1 + 2)² / (3 · (1 + 1 + 4)) = 16/18."""
    found = importance_metrics(
        [weighted((1.0, 7.0), (True, False)), weighted((1.0, 2.0), (True, True))], "token"
    )
    assert found["rollout/importance_mean"] == pytest.approx(4 / 3)
    assert found["rollout/importance_ess_frac"] == pytest.approx(16 / 18)


def test_a_sequence_counts_once_however_long_it_is():
    """Weights 1 and 3, and one that trains nothing: (1 + 3)² / (2 · 10)."""
    rollouts = [
        weighted((1.0,) * 5, (True,) * 5),
        weighted((3.0,) * 2, (False, True)),
        weighted((9.0,), (False,)),
    ]
    found = importance_metrics(rollouts, "sequence")
    assert found["rollout/importance_mean"] == 2
    assert found["rollout/importance_ess_frac"] == pytest.approx(16 / 20)
    equal = importance_metrics([weighted((0.4,) * 3, (True,) * 3)], "token")
    assert equal["rollout/importance_ess_frac"] == pytest.approx(1)


def test_explained_variance_by_hand():
    """Returns (0, 1) have variance 1/4; errors (−¼, ¼) have 1/16, (−½, ½) again 1/4."""
    assert explained_variance([0.5, 0.5], [0.0, 1.0]) == 0.0
    assert explained_variance([0.25, 0.75], [0.0, 1.0]) == pytest.approx(0.75)
    assert explained_variance([0.0, 1.0], [0.0, 1.0]) == 1.0
    assert explained_variance([1.0, 0.0], [0.0, 1.0]) == pytest.approx(-3.0)  # errors ∓1
    assert explained_variance([3.0, 4.0], [0.0, 1.0]) == 1.0  # an offset is no error of it
    assert math.isnan(explained_variance([0.1, 0.9], [1.0, 1.0]))


def test_within_problem_correlation_by_hand():
    """Deviations ∓½, ∓1 and ∓½, ±½: (½ − 1)/√(2.5 · 1), wherever the problems' means are."""
    returns_PN = [[0.0, 1.0], [1.0, 0.0]]
    expected = pytest.approx(-0.5 / math.sqrt(2.5))
    assert within_problem_correlation([[0.0, 1.0], [5.0, 7.0]], returns_PN) == expected
    assert within_problem_correlation([[3.0, 4.0], [-1.0, 1.0]], returns_PN) == expected
    assert within_problem_correlation([[0.2, 0.3], [0.9, 0.8]], returns_PN) == pytest.approx(1)
    assert math.isnan(within_problem_correlation([[0.1] * 3, [0.7]], [[0.0, 1.0, 1.0], [1.0]]))
    assert math.isnan(within_problem_correlation([[0.2, 0.3], [0.9]], [[0.0, 0.0], [1.0]]))
    for value in (math.nan, math.inf):
        assert math.isnan(within_problem_correlation([[value, 0.5]], [[0.0, 1.0]]))
    assert math.isnan(within_problem_correlation([[0.2, 0.3]], [[0.5, 0.5 + 1e-9]]))  # rounding


def test_calibration_error_by_hand():
    """|0.53 − 1|/3 + |0.8 − 1|/3; 0.3 begins a tenth, −1 and 4 are in the outermost."""
    assert calibration_error([0.25, 0.28, 0.8], [0.0, 1.0, 1.0]) == pytest.approx(0.67 / 3)
    assert calibration_error([0.29, 0.3], [0.0, 1.0]) == pytest.approx((0.29 + 0.7) / 2)
    assert calibration_error([0.5, 0.5], [0.0, 1.0]) == 0.0
    assert calibration_error([-1.0, 0.0, 4.0], [0.0, 1.0, 1.0]) == pytest.approx((2 + 3) / 3)
    assert math.isnan(calibration_error([math.nan, 0.5], [0.0, 1.0]))


def test_gradings_of_ranks_merge_by_how_much_each_graded():
    """2 of 10 and 3 of 30 failed: 5 of 40, not the mean of 0.2 and 0.1."""
    found = merged_grading(
        [
            {"grading/num_graded": 10, "grading/timeout_frac": 0.2, "grading/busy_s": 1.5},
            {"grading/num_graded": 30, "grading/timeout_frac": 0.1, "grading/busy_s": 0.5},
        ]
    )
    assert found["grading/num_graded"] == 40
    assert found["grading/timeout_frac"] == pytest.approx(0.125)
    assert found["grading/busy_s"] == 2.0
    idle = {"grading/num_graded": 0, "grading/timeout_frac": 0.0}
    assert merged_grading([idle, idle])["grading/timeout_frac"] == 0.0


def test_an_environments_tokens_are_in_no_mean():
    one = rollout("a", 1.0)
    one.response_ids = (2,) * 4
    one.turns = (Turn(0, 1, "", 0.0), Turn(3, 4, "", 1.0))
    one.logprobs_T, one.tokens_T["trainer_logprobs"] = (-1.0, 0.0, 0.0, -1.0), (-1.4, 0.0, 0.0, -1)
    assert logprob_gap_metrics([one])["rollout/engine_logprob_gap_mean"] == pytest.approx(0.2)
    found = rollout_metrics([one])
    assert (found["rollout/turns_mean"], found["rollout/observed_frac"]) == (2, 0.5)
    assert "rollout/turns_mean" not in rollout_metrics([rollout("a", 1.0)])
