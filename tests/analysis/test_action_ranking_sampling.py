"""Alternatives and what follows them: on a walk of known values, and by a real engine, killed."""

import math
from types import SimpleNamespace

import pytest
from support.random_walk import (
    DIGITS,
    NEWLINE,
    TOKENIZER,
    UP,
    RandomWalkEngine,
    problem,
    prompt_ids,
    sample,
    value,
)
from support.trained_runs import lasting_process_group, trained_path  # noqa: F401

from analysis.__main__ import main
from analysis.action_ranking import FOLDER
from analysis.sampling.alternatives import (
    branch,
    follow,
    next_step_length,
    propose,
)
from analysis.sampling.journal import Journal
from analysis.sampling.policies import Checkpoint
from analysis.sampling.rollouts import RolloutState
from analysis.tables import find_tables
from vineppo.config.schema import GradingConfig, SamplingConfig
from vineppo.rollouts import Prompt, Sampler, State
from vineppo.run_dir import read_parquet
from vineppo.segment import LinesSegmenter, TokensSegmenter
from vineppo.tasks.grading import Grader
from vineppo.types import Rollout, StepSpan

LINES = LinesSegmenter("lines")
PAIRS = TokensSegmenter("tokens", 4)  # two moves of the walk a step
BUDGET = 40


def ids(*positions):
    return tuple(token for position in positions for token in (DIGITS[position], NEWLINE))


@pytest.fixture
def walker():
    """A sampler of the walk, whose engine remembers its requests."""
    with Grader(GradingConfig("hash", None, 1, 10.0, 0.0, None)) as grader:
        sampling_config = SamplingConfig(1.0, 1.0, BUDGET)
        yield Sampler(RandomWalkEngine(), grader, TOKENIZER, sampling_config, seed=3)


def alternatives_at(walker, start, prefix, segmenter=LINES, limit=5, num_proposals=64):
    rollout = SimpleNamespace(logprobs_T=(-0.5,) * len(prefix))
    state = SimpleNamespace(
        rollout=rollout, after=lambda: State(Prompt(problem(start), prompt_ids(start)), prefix)
    )
    settings = {"num_proposals": num_proposals, "num_alternatives": limit}
    checkpoint = SimpleNamespace(iteration=1, title="walk", settings=settings)
    ((found,), _) = propose(walker, checkpoint, [state], segmenter)
    return found


def test_the_walk_has_two_next_steps_as_often_as_it_takes_them(walker):
    found = alternatives_at(walker, 2, ids(3, 2), num_proposals=1000)
    assert {one.step_ids for one in found} == {ids(1), ids(3)}
    share = {one.step_ids: one.num_proposed / one.num_proposals for one in found}
    assert share[ids(3)] == pytest.approx(UP, abs=4 * math.sqrt(UP * (1 - UP) / 1000))
    assert [one.final_return for one in found] == [None, None]


def test_steps_come_in_the_order_of_the_proposals_whichever_ends_first(walker):
    found = alternatives_at(walker, 2, (), PAIRS, limit=3)
    firsts = [tuple(sample(request)[:4]) for request in walker.engine.requests]
    assert [one.step_ids for one in found] == list(dict.fromkeys(firsts))[:3]
    ends = [len(sample(request)) for request in walker.engine.requests]
    assert ends != sorted(ends)  # or the order of the proposals were that of their ends
    assert len({request.seed for request in walker.engine.requests}) == len(firsts)


def test_a_step_that_ends_the_response_has_its_graded_return(walker):
    last = (TOKENIZER.convert_tokens_to_ids("####"), DIGITS[4], TOKENIZER.eos_token_id)
    by_step = {one.step_ids: one for one in alternatives_at(walker, 3, ())}
    assert by_step.keys() == {ids(2), (*ids(4), *last)}
    assert by_step[(*ids(4), *last)].final_return == 1
    # With two tokens left any step is the last, and cut off.
    prefix = ids(*[2, 3] * ((BUDGET - 2) // 4), 2)
    cut = alternatives_at(walker, 3, prefix)
    assert {one.step_ids for one in cut} == {ids(1), ids(3)}
    assert [one.final_return for one in cut] == [0, 0]


def test_a_step_is_cut_as_the_whole_response_is():
    state, lines, answer = (
        TOKENIZER.encode(text, add_special_tokens=False)
        for text in ("1+1=2\n", "2+3=5\n5*2=", "####5\n1+")
    )

    def length(segmenter, prefix, continuation):
        whole = (*prefix, *continuation)
        return next_step_length(segmenter, TOKENIZER, whole, (-0.5,) * len(whole), len(prefix))

    assert length(LINES, state, lines) == 6
    # An answer line belongs to the step before it, so after a state its next boundary counts.
    assert length(LINES, state, answer) == 3
    assert length(PAIRS, (1, 1, 1), (1,) * 9) == 1


def walk_job(tmp_path):
    """The states after (3, 2) and after (3, 2, 1) of a walk from 2, and what samples there."""
    rollout = Rollout(
        problem=problem(2),
        rollout_index=0,
        prompt_ids=prompt_ids(2),
        response_ids=ids(3, 2, 1, 2),
        logprobs_T=(-0.5,) * 8,
        finish_reason="stop",
        text="",
        spans_S=tuple(StepSpan(start, start + 2) for start in (0, 2, 4, 6)),
    )
    settings = {
        "checkpoint": 1, "num_proposals": 32, "num_alternatives": 5, "num_samples": 1000,
        "num_draws": 7,
    }  # fmt: skip
    checkpoint = Checkpoint(tmp_path, 1, "", tmp_path / "a.parquet", settings)
    states = [RolloutState(rollout, 2), RolloutState(rollout, 3)]
    return checkpoint, states, Journal(tmp_path / "a.jsonl", settings)


def test_what_follows_a_step_has_the_value_of_the_state_after_it(walker, tmp_path):
    checkpoint, states, journal = walk_job(tmp_path)
    proposed, _ = propose(walker, checkpoint, states, LINES)
    chosen = {
        f"{place} {one.step_ids[0]}": (states[place], one)
        for place, alternatives in enumerate(proposed)
        for one in alternatives
    }
    for state, one in chosen.values():
        branched = branch(state, one, walker.tokenizer)
        begins = len(state.prefix_ids)
        assert len(branched.logprobs_T) == len(branched.response_ids)
        assert branched.logprobs_T[:begins] == state.rollout.logprobs_T[:begins]
        assert branched.logprobs_T[begins:-1] == one.step_logprobs
        assert len(one.step_logprobs) == len(one.step_ids)
        assert all(logprob < 0 for logprob in one.step_logprobs)
    counts_of, _ = follow(walker, checkpoint, chosen, journal)
    for place, position, used in ((0, 1, 6), (0, 3, 6), (1, 2, 8)):
        counted = counts_of[f"{place} {DIGITS[position]}"]
        true = value(position, BUDGET - used)
        error = math.sqrt(true * (1 - true) / 1000)
        assert counted["num_correct"] / 1000 == pytest.approx(true, abs=4 * error)
        assert (counted["num_samples"], len(counted["draws_D"])) == (1000, 7)
    assert {key for key in chosen if key[0] == "1"} == {f"1 {DIGITS[0]}", f"1 {DIGITS[2]}"}
    _, at_the_end = chosen[f"1 {DIGITS[0]}"]
    assert at_the_end.final_return == 0
    assert counts_of[f"1 {DIGITS[0]}"] == {
        "num_samples": 1000, "num_correct": 0, "num_truncated": 0, "num_tokens": 0,
        "draws_D": (0,) * 7,
    }  # fmt: skip
    seeds = [request.seed for request in walker.engine.requests]
    assert len(set(seeds)) == len(seeds)  # proposals, truth and draws are independent


@pytest.mark.slow
@pytest.mark.usefixtures("lasting_process_group")
def test_with_an_engine_end_to_end(trained_path, tmp_path, monkeypatch):  # noqa: F811
    command = ["action-ranking", str(trained_path), f"--out={tmp_path}", "--checkpoints=1",
               "--states=4", "--samples=8", "--draws=4", "--alternatives=3", "--proposals=32",
               "--continuations=1,2"]  # fmt: skip
    assert main(command) == 0
    text = (tmp_path / "action_ranking.csv").read_text()
    assert {line.split(",")[5] for line in text.splitlines()[1:]} == {
        "mc_1", "mc_2", "critic", "tuned", "probe", "asked"
    }  # fmt: skip
    (table,) = find_tables(tmp_path, FOLDER)
    for step in read_parquet(table):
        assert len(step["draws_D"]) == 4
        if step["is_terminal"]:  # its one return is all of them, and its value
            values = {step["num_correct"] / 8, *step["draws_D"]}
            assert values == {dict(step["predictions"])["critic"]}
    monkeypatch.setattr("analysis.sampling.policies.open_policies", None)
    assert main(command) == 0  # what is there is reported without an engine
    assert main([*command, "--samples=17"]) == 2
