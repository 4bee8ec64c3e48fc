"""Monte-Carlo values and vine advantages against values known in closed form."""

import math
import random
import threading
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import replace

import pytest
from support.random_walk import (
    TOKENIZER,
    RandomWalkEngine,
    prompt_ids,
    sample,
    value,
)
from support.walks import CREDIT, GRADING, LONG, SHORT, walk_config, walked

from vineppo.config.schema import MonteCarloValues, ValuesConfig
from vineppo.credit.vine import vine_advantages
from vineppo.tasks.grading import Grader
from vineppo.types import MONTE_CARLO, Rollout
from vineppo.values.group_mean import GroupMean


def gather(max_tokens, seed, credit=CREDIT, **others):
    return walked(walk_config(max_tokens, seed, credit), **others)


def returns_of(rollout: Rollout):
    return rollout.returns_S[MONTE_CARLO]


def step_advantages(rollout: Rollout) -> list[float]:
    return vine_advantages(rollout.state_values_S, rollout.reward)


def true_values(rollout: Rollout, max_tokens: int) -> list[float]:
    """V(s_0) … V(s_S) of a rollout; the last is its reward."""
    values = []
    for step, span in enumerate(rollout.spans_S):
        prefix = (*rollout.prompt_ids, *rollout.prefix_ids(step))
        position = int(TOKENIZER.decode([prefix[-2]]))
        values.append(value(position, max_tokens - span.start))
    return [*values, rollout.reward]


@pytest.mark.parametrize("max_tokens", [SHORT, LONG])
@pytest.mark.parametrize("identical_prefixes", ["share", "separate"])
def test_values_and_advantages_are_unbiased(max_tokens, identical_prefixes):
    """Mean error within 4 standard errors of 0, clustered by run; a wrong budget would be 0.05 off.

    Errors of rollouts that share states are correlated, those of runs with different seeds are not.
    """
    credit = replace(CREDIT, identical_prefixes=identical_prefixes)
    value_errors, advantage_errors, weighted_errors = [], [], []
    for seed in range(60):
        experience, _ = gather(max_tokens, seed, credit)
        errors = defaultdict(list)
        for rollout in experience.rollouts:
            truth, advantages_S = true_values(rollout, max_tokens), step_advantages(rollout)
            for step, (estimate, advantage) in enumerate(
                zip(rollout.state_values_S, advantages_S, strict=True)
            ):
                errors["value"].append(estimate - truth[step])
                error = advantage - (truth[step + 1] - truth[step])
                errors["advantage"].append(error)
                errors["weighted"].append(step * error)
        # Sums over the run, not means: the number of steps depends on the outcome. Weighted by the
        # step, for unweighted sums of advantages telescope and would hide all but the first value.
        value_errors.append(sum(errors["value"]))
        advantage_errors.append(sum(errors["advantage"]))
        weighted_errors.append(sum(errors["weighted"]))
    for sums in (value_errors, advantage_errors, weighted_errors):
        mean = sum(sums) / len(sums)
        variance = sum((x - mean) ** 2 for x in sums) / (len(sums) - 1)
        assert abs(mean) < 4 * math.sqrt(variance / len(sums))


@pytest.mark.parametrize("max_tokens", [SHORT, LONG])
def test_advantages_sum_to_reward_minus_first_value(max_tokens):
    experience, _ = gather(max_tokens, seed=7)
    reasons = {rollout.finish_reason for rollout in experience.rollouts}
    assert reasons == ({"stop", "length"} if max_tokens == SHORT else {"stop"})
    for rollout in experience.rollouts:
        first = returns_of(rollout)[0].mean
        assert sum(step_advantages(rollout)) == pytest.approx(rollout.reward - first)


def test_continuations_get_the_remaining_budget_and_the_sampled_ids():
    experience, engine = gather(SHORT, seed=3)
    prefixes = {
        (*rollout.prompt_ids, *rollout.prefix_ids(step))
        for rollout in experience.rollouts
        for step in range(len(rollout.spans_S))
    }
    values_requests = engine.requests[len(experience.rollouts) :]
    assert {request.prefix_ids for request in values_requests} == prefixes
    for request in values_requests:
        assert len(request.prefix_ids) + request.max_tokens == len(prompt_ids(1)) + SHORT


def test_every_request_has_a_seed_of_its_own():
    seeds = [
        request.seed
        for iteration in (1, 2)
        for request in gather(SHORT, seed=3, iteration=iteration)[1].requests
    ]
    assert len(set(seeds)) == len(seeds)


def test_identical_prefixes_are_sampled_once():
    experience, engine = gather(SHORT, seed=3)
    distinct = {
        (rollout.problem.id, rollout.prefix_ids(step))
        for rollout in experience.rollouts
        for step in range(len(rollout.spans_S))
    }
    assert experience.num_continuations == CREDIT.num_continuations * len(distinct)
    assert len(engine.requests) == len(experience.rollouts) + experience.num_continuations
    first = [returns_of(rollout)[0] for rollout in experience.rollouts[:6]]
    assert len({value.returns_K for value in first}) == 1
    assert [value.num_tokens > 0 for value in first] == [True] + [False] * 5


def test_tokens_of_values_are_counted_once():
    experience, engine = gather(LONG, seed=5)
    counted = sum(value.num_tokens for r in experience.rollouts for value in returns_of(r))
    sampled = sum(len(sample(r)) for r in engine.requests[len(experience.rollouts) :])
    assert counted == sampled


class WatchedEngine(RandomWalkEngine):
    """Keeps how many requests there had been when each rollout ended."""

    def __init__(self):
        super().__init__()
        self.requests_at_ends = []

    def submit(self, request, done):
        def watched(completion):
            if request.with_logprobs:
                self.requests_at_ends.append(len(self.requests))
            done(completion)

        super().submit(request, watched)


def test_continuations_join_while_rollouts_are_sampled():
    experience, engine = gather(LONG, 0, engine=WatchedEngine())
    num_rollouts = len(experience.rollouts)
    assert engine.requests_at_ends[0] == num_rollouts
    # Every rollout but the last one ends beside continuations of those before it.
    assert all(count > num_rollouts for count in engine.requests_at_ends[1:])
    assert engine.requests_at_ends == sorted(engine.requests_at_ends)


class LateGrader(Grader):
    """Answers from other threads, later and in another order."""

    def submit(self, *response):
        reward = super().submit(*response)
        late = Future()
        delay_s = random.Random(response[1]).uniform(0, 0.1)
        threading.Timer(delay_s, lambda: late.set_result(reward.result())).start()
        return late


def test_a_late_grader_changes_neither_order_nor_values():
    at_once, engine = gather(SHORT, 1)
    with LateGrader(GRADING) as grader:
        late, other = gather(SHORT, 1, grader=grader)
    assert other.requests == engine.requests
    assert late == at_once


ORACLE = MonteCarloValues("monte_carlo", 2, "separate", None)


def test_a_second_predictor_has_random_numbers_of_its_own():
    """The tokens and values of rollouts and of the first do not change by adding it."""
    alone, engine = gather(SHORT, 3)
    both = ValuesConfig(None, {"oracle": ORACLE, "mean": GroupMean.Config("group_mean")})
    beside, other = walked(walk_config(SHORT, 3, values=both))
    assert [r.seed for r in engine.requests] == [
        r.seed for r in other.requests if r.seed in {one.seed for one in engine.requests}
    ]
    assert len({r.seed for r in other.requests}) == len(other.requests)
    for here, there in zip(beside.rollouts, alone.rollouts, strict=True):
        assert here.response_ids == there.response_ids
        assert returns_of(here) == returns_of(there)
        assert here.values_from == MONTE_CARLO
        oracle = here.returns_S["oracle"]
        assert [len(value.returns_K) for value in oracle] == [2] * len(here.spans_S)
        assert here.values_S("oracle") == [value.mean for value in oracle]
    num_states = sum(len(rollout.spans_S) for rollout in alone.rollouts)
    assert beside.num_continuations == alone.num_continuations + 2 * num_states
