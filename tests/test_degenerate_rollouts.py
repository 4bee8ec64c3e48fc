"""Iterations with next to nothing in them: every estimator, metric and loss stays finite."""

import json
import math
from dataclasses import replace

import pytest
import torch
from support.rollouts import CPU, LINES, VINE, changed, spans

from vineppo.batching import UpdateSizes, collate, is_sound
from vineppo.credit.gae import GaeCredit
from vineppo.credit.groups import (
    GrpoCredit,
    RlooCredit,
)
from vineppo.experience import add_advantages
from vineppo.metrics import (
    advantage_metrics,
    kl_metrics,
    logprob_gap_metrics,
    predictor_metrics,
    reward_metrics,
    rollout_metrics,
    value_metrics,
)
from vineppo.recipes.reinforce_plus_plus import (
    ReinforcePlusPlusBaselineCredit,
    ReinforcePlusPlusCredit,
)
from vineppo.recipes.remax import RemaxCredit
from vineppo.run_dir import strict_json
from vineppo.token_scores import TokenScores
from vineppo.types import MONTE_CARLO, Problem, Rollout, StateValue
from vineppo.update import POLICY_COLUMNS, policy_objective

CREDITS = {
    "vine": replace(VINE, num_continuations=1),
    "gae": GaeCredit("gae", LINES, 1.0, 0.95, None, 1.0, "token"),
    "grpo": GrpoCredit("grpo", LINES, normalize_std=True),
    "rloo": RlooCredit("rloo", LINES),
    "reinforce_plus_plus": ReinforcePlusPlusCredit("reinforce_plus_plus", LINES, gamma=1.0),
    "baseline": ReinforcePlusPlusBaselineCredit("reinforce_plus_plus_baseline", LINES),
    "remax": RemaxCredit("remax", LINES),
}
# Rewards of a problem's rollouts, the lengths of their steps, why they ended.
CASES = {
    "only the end token": ([1.0, 0.0], [1], "stop"),
    "one step": ([1.0, 0.0], [5], "stop"),
    "hundreds of steps": ([1.0, 0.0], [1] * 400, "stop"),
    "all right": ([1.0, 1.0], [2, 1], "stop"),
    "all wrong": ([0.0, 0.0], [2, 1], "stop"),
    "all truncated": ([0.0, 0.0], [2, 2], "length"),
}


def make(rewards, lengths_S, finish_reason):
    """Two problems of as many rollouts; values of one continuation and of a critic, both 0.5."""
    length = sum(lengths_S)
    found = []
    for problem in ("p", "q"):
        for index, reward in enumerate(rewards):
            returns_S = (StateValue((float(index % 2),), 1),) * len(lengths_S)
            one = Rollout(
                problem=Problem(problem, "q", "a"),
                rollout_index=index,
                prompt_ids=(1, 2),
                response_ids=(3,) * length,
                logprobs_T=(-0.5,) * length,
                finish_reason=finish_reason,
                text="",
                reward=reward,
                spans_S=spans(lengths_S),
                returns_S={MONTE_CARLO: returns_S},
                greedy_reward=0.0,
            )
            one.steps_S[f"values/{MONTE_CARLO}"] = tuple(value.mean for value in returns_S)
            one.tokens_T |= {
                "values/critic": (0.5,) * length,
                "trainer_logprobs": (-0.5,) * length,
                "ref_logprobs": (-0.5,) * length,
                "kl": (0.0,) * length,
            }
            found.append(one)
    return found


def with_credit(config, name, found, **optimization):
    config = changed(config, credit=CREDITS[name], optimization=optimization)
    for one in found:
        one.values_from = {"vine": MONTE_CARLO, "gae": "critic"}.get(name)
    add_advantages(found, [], config, 0.0)
    return config


def loss_of(config, found, log_ratio=0.0):
    """The loss, its numbers and its gradient by the log-probabilities."""
    batch = collate(found, CPU, POLICY_COLUMNS)
    mask_BT = batch.response_mask_BT
    logprobs_BT = torch.where(mask_BT, -0.5 + log_ratio, 0.0).requires_grad_()
    zeros_BT = torch.zeros(mask_BT.shape)
    scores = TokenScores(logprobs_BT, 0.3 * mask_BT, zeros_BT, zeros_BT, zeros_BT)
    sizes = UpdateSizes.of(found, config.sampling.max_tokens)
    total, numbers = policy_objective(config, 0.1, [], sizes, batch, scores)
    total.backward()
    return {name: x.item() for name, x in numbers.items()}, logprobs_BT.grad


def metrics_of(found):
    values = [value for one in found for value in one.returns_S[MONTE_CARLO]]
    return {
        **reward_metrics(found),
        **rollout_metrics(found),
        **advantage_metrics([one.steps_S["advantages"] for one in found]),
        **logprob_gap_metrics(found),
        **kl_metrics([one.tokens_T["kl"] for one in found], 0.0),
        **value_metrics(values, len(values)),
    }


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("credit", CREDITS)
def test_an_update_on_next_to_nothing_is_finite(config, credit, case, is_masked):
    found = make(*CASES[case])
    config = with_credit(
        config, credit, found, mask_truncated=is_masked, whiten_advantages=not is_masked
    )
    numbers, gradient = loss_of(config, found)
    assert all(map(math.isfinite, numbers.values())), numbers
    assert gradient.isfinite().all()
    assert is_sound(config.optimization.max_mean_ratio, [numbers])
    metrics = metrics_of(found)
    assert all(map(math.isfinite, metrics.values())), metrics
    assert metrics["reward/group_all_equal_frac"] == float(case.startswith("all"))
    assert metrics["rollout/truncated_frac"] == float(case == "all truncated")
    if is_masked and case == "all truncated":
        assert numbers["loss"] == numbers["ratio_mean"] == 0.0
        assert not gradient.any()


def test_equal_rewards_teach_nothing(config):
    """Where the baseline is the group's or the whole batch's: not one bit of a gradient."""
    for credit in ("grpo", "rloo", "baseline", "reinforce_plus_plus"):
        found = make(*CASES["all right"])
        whole = with_credit(config, credit, found, whiten_advantages=True)
        _, gradient = loss_of(changed(whole, reference={"kl_in": "loss"}), found)
        assert not gradient.any(), credit


@pytest.mark.parametrize("log_ratio", [-1e6, -30.0, 30.0, 1e6])
def test_exploding_ratios_are_finite_and_skipped(config, log_ratio):
    found = make(*CASES["one step"])
    config = with_credit(config, "rloo", found)
    config = changed(config, reference={"kl_estimator": "k1"})
    numbers, gradient = loss_of(config, found, log_ratio)
    assert math.isfinite(numbers["loss"])
    assert gradient.isfinite().all()
    assert is_sound(config.optimization.max_mean_ratio, [numbers]) == (log_ratio < 0)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", ["values/critic", "trainer_logprobs", "ref_logprobs", "kl"])
def test_a_number_that_is_not_finite_skips_the_update_and_breaks_no_metric(config, column, broken):
    """It reaches the loss, which is refused, or no loss at all; metrics have null in its place."""
    found = make([1.0, 0.0], [2, 1], "stop")
    found[1].tokens_T[column] = (broken, 0.0, -broken)
    config = with_credit(config, "gae", found, old_logprobs="trainer")
    numbers, _ = loss_of(config, found)
    is_applied = is_sound(config.optimization.max_mean_ratio, [numbers])
    assert math.isfinite(numbers["loss"]) or not is_applied
    if column != "ref_logprobs":  # infinite ones are clamped, as is the KL to them
        assert is_applied == (column == "kl")
    metrics = metrics_of(found)
    values_N = [x for one in found for x in one.tokens_T["values/critic"]]
    metrics |= predictor_metrics([values_N], [[0.0, 1.0] * (len(values_N) // 2)])
    read = json.loads(strict_json(metrics))
    assert read.keys() == metrics.keys()
    assert (read["advantages/mean"] is None) == (column == "values/critic")
    assert (read["explained_variance"] is None) == (column == "values/critic")
