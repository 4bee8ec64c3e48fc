"""The continuation loop, on the random walk."""

from dataclasses import replace

import pytest
from support.random_walk import DIGITS, MARK, NEWLINE, TOKENIZER, problem, prompt_ids, sample
from support.walks import GRADING, LONG, SHORT, SlottedEngine

from analysis.sampling.continuations import StateRequest, sample_continuations
from vineppo.config.schema import SamplingConfig
from vineppo.recipes.tree import TreeCredit
from vineppo.rollouts import Prompt, Sampler, State, submit_rollouts
from vineppo.segment import LinesSegmenter
from vineppo.tasks.grading import Grader
from vineppo.types import Problem, derive_seed

PROMPT = Prompt(problem(2), prompt_ids(2))
PREFIX = (DIGITS[3], NEWLINE)
REQUESTS = [
    StateRequest(State(PROMPT), 3, ("a",), tag="start"),
    StateRequest(State(PROMPT, PREFIX), 5, ("b", 7), first=2, tag="up"),
    StateRequest(State(PROMPT, (*PREFIX, DIGITS[2], NEWLINE)), 1, ("c",), tag="back"),
]


@pytest.fixture
def sampler():
    with Grader(GRADING) as grader:
        yield Sampler(SlottedEngine(), grader, TOKENIZER, SamplingConfig(1.0, 1.0, SHORT), 5)


def test_a_state_has_its_continuations_in_order_with_their_seeds_and_budgets(sampler):
    ticks = []
    found = {
        request.tag: (request, continuations)
        for request, continuations in sample_continuations(
            sampler, REQUESTS, lambda: ticks.append(None)
        )
    }
    assert found.keys() == {"start", "up", "back"}
    assert len(ticks) == sampler.engine.num_steps > 0
    submitted = iter(sampler.engine.requests)
    for request in REQUESTS:
        returned, continuations = found[request.tag]
        assert returned is request
        indices = list(range(request.first, request.first + request.num_samples))
        assert [one.index for one in continuations] == indices
        for one in continuations:
            asked = next(submitted)  # a state's are next to each other
            assert asked.prefix_ids == (*PROMPT.token_ids, *request.state.prefix_ids)
            assert asked.max_tokens == SHORT - len(request.state.prefix_ids)
            assert asked.seed == derive_seed(5, *request.stream, one.index)
            assert one.completion.token_ids == tuple(sample(asked))


PAD, BOS, EOS, UNKNOWN = TOKENIZER.convert_tokens_to_ids(["<pad>", "<bos>", "<eos>", "<unk>"])


@pytest.mark.parametrize("special", [(PAD,), (UNKNOWN,), (BOS, PAD), (EOS,)])
def test_a_special_token_within_a_response_glues_nothing(special, sampler):
    """It was "####40", which is paid; at the ends it stands between nothing."""
    response = (MARK, DIGITS[4], *special, DIGITS[0], EOS)
    text = sampler.text(response)
    assert text == "####4" + "\ufffd" * len(special) + "0"
    for answer in ("40", "4", "0"):
        assert sampler.grader.submit(Problem("p", "q", answer), text, "stop").result() == 0.0
    whole = (*special, MARK, DIGITS[4], DIGITS[0], *special, EOS)
    assert sampler.text(whole) == "####40"
    assert sampler.full_text(response) == TOKENIZER.decode(response)


def test_a_reward_may_ask_for_the_special_tokens(sampler, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "def reward(question, answer, response, full_response):\n"
        "    assert response.strip() == full_response.removesuffix('<eos>').strip()\n"
        "    assert response.startswith('<think>')\n"  # what the prompt opened
        "    return 2.0 * full_response.endswith('<eos>')\n"
    )
    with Grader(replace(GRADING, reward_path=str(file)), opening="<think>") as grader:
        sampler = replace(sampler, grader=grader, sampling=SamplingConfig(1.0, 1.0, LONG))
        found = dict(sample_continuations(sampler, REQUESTS[:1]))[REQUESTS[0]]
        assert {one.reward.result() for one in found} == {2.0}


def test_a_continuation_is_graded_with_what_was_before_it(sampler):
    """At the top the reward is 1; the text begins with the prefix."""
    sampler = replace(sampler, sampling=SamplingConfig(1.0, 1.0, LONG))
    rewards = set()
    for request, continuations in sample_continuations(sampler, REQUESTS):
        for one in continuations:
            whole = (*request.state.prefix_ids, *one.completion.token_ids)
            assert one.text == sampler.text(whole)
            assert one.reward.result() == float(one.text.endswith("####4"))
            rewards.add(one.reward.result())
    assert rewards == {0.0, 1.0}


def test_more_samples_go_on_where_fewer_ended(sampler):
    """Numbers 3 … 7 of a stream are the same, whoever sampled 0 … 2."""
    (whole,) = sample_continuations(sampler, [StateRequest(State(PROMPT), 8, ("a",))])
    (rest,) = sample_continuations(sampler, [StateRequest(State(PROMPT), 5, ("a",), first=3)])
    assert [one.completion for one in rest[1]] == [one.completion for one in whole[1][3:]]


def test_rollouts_are_continuations_of_an_empty_response(sampler):
    pending = submit_rollouts(sampler, [PROMPT], 3, (1, "rollouts"), with_logprobs=True)
    sampler.finish()
    rollouts = pending.settle()
    stream = (1, "rollouts", PROMPT.problem.id)
    ((_, continuations),) = sample_continuations(sampler, [StateRequest(State(PROMPT), 3, stream)])
    for one in continuations:
        rollout = rollouts[PROMPT.problem.id, one.index]
        assert rollout.response_ids == one.completion.token_ids
        assert rollout.reward == one.reward.result()
        assert rollout.text == sampler.text(rollout.response_ids)
        assert len(rollout.logprobs_T) == len(rollout.response_ids)


def test_a_tree_grows_level_by_level(sampler):
    """Six children of 8 tokens, two of what is left: leaves in order, with the seeds of nodes."""
    tree = TreeCredit("tree", LinesSegmenter("lines"), (6, 2), 8, "mean", False, "once")
    finished = []
    pending = tree.submit(sampler, [PROMPT], (1, "rollouts"), finished.append)
    sampler.finish()
    leaves = pending.settle()
    assert len(finished) == len(leaves) == 12
    group = [leaves[PROMPT.problem.id, index] for index in range(12)]
    asked = {request.seed: request for request in sampler.engine.requests}
    ended = 0
    for leaf in range(0, 12, 2):
        first = asked.pop(derive_seed(5, 1, "rollouts", PROMPT.problem.id, 0, 0, leaf // 2))
        ids = tuple(sample(first))
        assert (first.prefix_ids, first.max_tokens) == (PROMPT.token_ids, 8)
        is_ended = ids[-1] == TOKENIZER.eos_token_id
        ended += is_ended
        for child, one in enumerate(group[leaf : leaf + 2]):
            assert one.rollout_index == leaf + child
            if is_ended:  # a copy
                assert (one.response_ids, one.finish_reason) == (ids, "stop")
                continue
            second = asked.pop(derive_seed(5, 1, "rollouts", PROMPT.problem.id, 1, leaf, child))
            assert second.prefix_ids == (*PROMPT.token_ids, *ids)
            assert second.max_tokens == SHORT - 8
            assert one.response_ids == (*ids, *sample(second))
            assert len(one.logprobs_T) == len(one.response_ids)
            is_top = one.finish_reason == "stop" and one.response_ids[-2] == DIGITS[4]
            assert one.reward == float(is_top)
    assert not asked
    assert 0 < ended < 6
