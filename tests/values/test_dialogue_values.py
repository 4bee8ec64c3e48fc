"""Rollouts and values through an environment, against a policy's exact values."""

import math
from collections import defaultdict
from dataclasses import replace

import pytest
from support.drills import QUESTIONS, TabularEngine, drill, drill_prompt, drill_value
from support.random_walk import TOKENIZER
from support.walks import CREDIT, walk_config, walked

from vineppo.credit.vine import vine_advantages
from vineppo.segment import TurnsSegmenter

PROMPTS = tuple(map(drill_prompt, QUESTIONS))
BY_TURNS = replace(CREDIT, segmenter=TurnsSegmenter("turns"))
SHORT, LONG = 13, 64  # the longer question's last turn has no room; all have


def drilled(max_tokens, seed):
    config = walk_config(max_tokens, seed, BY_TURNS)
    return walked(config, TabularEngine(), PROMPTS, environment=drill())


def true_values(rollout, max_tokens):
    """V(s_0) … V(s_S), by the states' names."""
    values = []
    for turn in rollout.turns:
        place, number = map(int, turn.state.split())
        question = rollout.problem.question
        values.append(drill_value(question, place, number, max_tokens - turn.start))
    return [*values, rollout.reward]


@pytest.mark.parametrize("max_tokens", [SHORT, LONG])
def test_values_and_advantages_are_unbiased(max_tokens):
    """As `test_monte_carlo.py` tests them: mean error within 4 standard errors of 0, by runs."""
    errors = defaultdict(list)
    for seed in range(60):
        experience, _ = drilled(max_tokens, seed)
        of_run = defaultdict(list)
        for rollout in experience.rollouts:
            truth = true_values(rollout, max_tokens)
            found = rollout.state_values_S
            of_run["value"] += [x - v for x, v in zip(found, truth[:-1], strict=True)]
            steps = enumerate(vine_advantages(found, rollout.reward))
            of_run["weighted"] += [i * (a - (truth[i + 1] - truth[i])) for i, a in steps]
        for name, some in of_run.items():
            errors[name].append(sum(some))
    for sums in errors.values():
        mean = sum(sums) / len(sums)
        variance = sum((x - mean) ** 2 for x in sums) / (len(sums) - 1)
        assert abs(mean) < 4 * math.sqrt(variance / len(sums))


def test_a_step_is_a_turn_and_the_answer_to_it():
    experience, engine = drilled(LONG, seed=3)
    assert {len(rollout.spans_S) for rollout in experience.rollouts} == {2, 3}
    for rollout in experience.rollouts:
        assert [span.start for span in rollout.spans_S] == [turn.start for turn in rollout.turns]
        assert rollout.spans_S[-1].end == len(rollout.response_ids)
        own = [i for i, own in zip(rollout.response_ids, rollout.is_action_T, strict=True) if own]
        text = TOKENIZER.decode(own)
        assert "=" not in text
        assert text.count("\n") == len(rollout.turns)
        is_zero_T = [logprob == 0 for logprob in rollout.logprobs_T]
        assert is_zero_T == [not own for own in rollout.is_action_T]
    tokens = sum(v.num_tokens for r in experience.rollouts for v in r.returns_S["monte_carlo"])
    of_rollouts = sum(sum(rollout.is_action_T) for rollout in experience.rollouts)
    assert tokens + of_rollouts == sum(len(engine.sample(one)) for one in engine.requests)
