"""Which step boundaries are sampled, and that the choice sees no reward."""

import math
from concurrent.futures import Future
from dataclasses import replace

import pytest
from support.rollouts import rollout as plain_rollout
from support.walks import CREDIT, GRADING, LONG, walk_config, walked

from vineppo.config.schema import MonteCarloValues, ValuesConfig
from vineppo.recipes.cuts import CoinCuts, Cuts, ExpectedCuts, even_cuts, gains_of
from vineppo.tasks.grading import Grader
from vineppo.types import MONTE_CARLO, Rollout
from vineppo.values import build_predictors


def gather(max_tokens, seed, credit=CREDIT, **others):
    return walked(walk_config(max_tokens, seed, credit), **others)


def returns_of(rollout: Rollout):
    return rollout.returns_S[MONTE_CARLO]


SOME = [Cuts(kind, 2) for kind in ("random", "uncertain", "surprisal")] + [
    CoinCuts("coin", 0.4),
    ExpectedCuts("expected", "probability", 0.4, 0.1),
]
LOGPROBS = (-1.0, -0.5, -3.0, -0.5, -1.0, -4.0)  # steps of 2, 1, 1, 1 and 1 tokens


def cut(states, seed=0):
    one = plain_rollout([0.0] * 6, lengths_S=[2, 1, 1, 1, 1], logprobs_T=LOGPROBS)
    return sorted(states.chosen(one, seed))


def test_where_rollouts_are_cut():
    # Least likely tokens −1, −3, −0.5, −1: after the second step and the first. The last step's −4
    # is before no boundary.
    assert cut(Cuts("uncertain", 1)) == [2]
    assert cut(Cuts("uncertain", 2)) == [1, 2]
    # Nats behind the boundaries 1.5, 4.5, 5, 6 of 10 in all; thirds at 3.33 and 6.67.
    assert cut(Cuts("surprisal", 1)) == [3]
    assert cut(Cuts("surprisal", 2)) == [2, 4]
    found = [tuple(cut(Cuts("random", 2), seed)) for seed in range(2000)]
    assert [found.count(pair) for pair in sorted(set(found))] == pytest.approx([333] * 6, abs=80)
    numbers = [len(cut(CoinCuts("coin", 0.25), seed)) for seed in range(2000)]
    assert sum(numbers) == pytest.approx(2000, abs=160)  # 4 boundaries; 4 standard errors
    for states in (Cuts("random", 9), Cuts("uncertain", 9), CoinCuts("coin", 1.0)):
        assert cut(states) == [1, 2, 3, 4]


def test_expected_cuts_have_the_mean_probability_and_follow_the_step_before():
    """Gains 1 − e^−1.5, 1 − e^−3, 1 − e^−0.5, 1 − e^−1; with c = 0.4 those are 0.31 … 0.16 …"""
    one = plain_rollout([0.0] * 6, lengths_S=[2, 1, 1, 1, 1], logprobs_T=LOGPROBS)
    gains = [1 - math.exp(-nats) for nats in (1.5, 3, 0.5, 1)]
    assert gains_of(one, "probability") == pytest.approx(gains)
    states = ExpectedCuts("expected", "probability", 0.4, 0.2)
    assert states.chances(one, 0.4) == pytest.approx(
        [0.4 * gains[0], 0.4 * gains[1], 0.2, 0.4 * gains[3]]
    )
    scale = states.next_scale([one])
    assert sum(states.chances(one, scale)) == pytest.approx(4 * 0.4)
    # At most 1, and the mean all the same.
    sure = replace(states, probability=0.8)
    assert sum(sure.chances(one, sure.next_scale([one]))) == pytest.approx(4 * 0.8)
    assert states.next_scale([plain_rollout([0.0, 1.0])]) is None
    found = [sorted(states.chosen(one, seed, scale)) for seed in range(2000)]
    counts = [sum(step in cuts for cuts in found) for step in (1, 2, 3, 4)]
    expected = [2000 * chance for chance in states.chances(one, scale)]
    assert counts == pytest.approx(expected, abs=90)  # 4 standard errors
    # Evenly: 1.6 cuts are one or two.
    assert {len(cuts) for cuts in found} == {1, 2}
    assert even_cuts([0.5, 0.25, 0.5], 0.4) == [2]
    by_entropy = replace(states, by="entropy")
    one.tokens_T["entropies"] = [0.1, 0.3, 0.0, 0.2, 0.6, 0.9]
    assert gains_of(one, "entropy") == pytest.approx([0.4, 0.0, 0.2, 0.6])
    assert by_entropy.chances(one, 1.0) == pytest.approx([0.4, 0.2, 0.2, 0.6])


def test_cuts_by_entropy_ask_for_the_policys_pass():
    states = ExpectedCuts("expected", "entropy", 0.4, 0.1)
    config = walk_config(LONG, 3, replace(CREDIT, states=states))
    assert config.reads_entropies
    predictors = {"more": MonteCarloValues("monte_carlo", 2, "share", states)}
    assert walk_config(LONG, 3, values=ValuesConfig(None, predictors)).reads_entropies
    assert not walk_config(LONG, 3).reads_entropies


def test_the_next_iterations_scale_is_kept(tmp_path):
    credit = replace(CREDIT, states=ExpectedCuts("expected", "probability", 0.4, 0.1))
    config = walk_config(LONG, 3, credit)
    experience, _ = walked(config)
    (first,), (other,) = build_predictors(config, None), build_predictors(config, None)
    metrics = first.update(experience.rollouts, 1)
    assert metrics == {"values/monte_carlo/cut_probability": pytest.approx(0.4)}
    first.save_state(tmp_path)
    other.load_state(tmp_path)
    cuts = [[one.sampled_steps(r, 2) for r in experience.rollouts] for one in (first, other)]
    assert cuts[0] == cuts[1]
    again = first.update(experience.rollouts, 2)
    assert again == {"values/monte_carlo/cut_probability": pytest.approx(0.4)}


def test_a_rollout_of_one_step_is_not_cut():
    for states in SOME:
        assert not states.chosen(plain_rollout([0.0, 1.0]), 0)


@pytest.mark.parametrize("states", SOME, ids=lambda states: states.kind)
def test_only_chosen_states_are_sampled(states):
    credit = replace(CREDIT, states=states, identical_prefixes="separate")
    experience, engine = gather(LONG, 3, credit)
    everywhere, _ = gather(LONG, 3)
    for rollout, whole in zip(experience.rollouts, everywhere.rollouts, strict=True):
        assert rollout.response_ids == whole.response_ids
        returns_S = returns_of(rollout)
        sampled = [state for state in returns_S if state.returns_K]
        assert not returns_S[0].returns_K
        assert {len(state.returns_K) for state in sampled} <= {CREDIT.num_continuations}
        if states.kind in ("random", "uncertain"):
            assert len(sampled) == min(2, len(rollout.spans_S) - 1)
        for state, mean in zip(returns_S, rollout.state_values_S, strict=True):
            assert math.isnan(mean) if not state.returns_K else mean == state.mean
    num_states = sum(bool(v.returns_K) for r in experience.rollouts for v in returns_of(r))
    assert experience.num_continuations == CREDIT.num_continuations * num_states
    assert len(engine.requests) == len(experience.rollouts) + experience.num_continuations


class ContraryGrader(Grader):
    def submit(self, *response):
        reward = Future()
        reward.set_result(1 - super().submit(*response).result())
        return reward


@pytest.mark.parametrize("states", SOME, ids=lambda states: states.kind)
def test_cuts_see_no_reward(states):
    credit = replace(CREDIT, states=states)
    _, engine = gather(LONG, 3, credit)
    with ContraryGrader(GRADING) as grader:
        _, other = gather(LONG, 3, credit, grader=grader)
    assert other.requests == engine.requests
    assert gather(LONG, 3, credit, iteration=2)[1].requests != engine.requests
