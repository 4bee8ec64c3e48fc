"""Alternatives and what follows them: on a walk of known values, and by a real engine, killed."""

import math
from dataclasses import replace
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
from analysis.action_ranking import sampling
from analysis.action_ranking.stages import Job, follow, propose
from analysis.action_ranking.table import read_ranking, table_path
from analysis.rollout_files import read_rollouts
from analysis.sampling.alternatives import ROUND, next_step_length, sample_alternatives
from analysis.sampling.continuations import StateRequest
from analysis.sampling.journal import Journal
from analysis.sampling.meter import Meter
from analysis.sampling.policies import open_policies, policy_paths
from analysis.sampling.settings_file import of_checkpoint
from analysis.sampling.states import RolloutState
from vineppo.config.schema import GradingConfig, LinesSegmenter, SamplingConfig, TokensSegmenter
from vineppo.evaluate import read_config
from vineppo.rollouts import Prompt, Sampler
from vineppo.segment import build_segmenter
from vineppo.segment.token_texts import token_texts
from vineppo.tasks.grading import Grader

LINES = build_segmenter(LinesSegmenter("lines"))
PAIRS = build_segmenter(TokensSegmenter("tokens", 4))  # two moves of the walk a step
BUDGET = 40
PROPOSED, FOLLOWED = b'"alternatives"', b'"kind"'  # in the lines of a journal


def ids(*positions):
    return tuple(token for position in positions for token in (DIGITS[position], NEWLINE))


@pytest.fixture
def walker():
    """A sampler of the walk, whose engine remembers its requests."""
    with Grader(GradingConfig("hash", None, 1, 10.0, 0.0)) as grader:
        sampling_config = SamplingConfig(1.0, 1.0, BUDGET)
        yield Sampler(RandomWalkEngine(), grader, TOKENIZER, sampling_config, seed=3)


def alternatives_at(walker, start, prefix, segmenter=LINES, limit=5, num_proposals=4 * ROUND):
    found = []
    request = StateRequest(Prompt(problem(start), prompt_ids(start)), prefix, num_proposals, ("x",))
    sample_alternatives(
        walker, segmenter, [request], limit, lambda _, of: found.append(of), lambda: None
    )
    (alternatives,) = found
    return alternatives


def test_the_walk_has_two_next_steps_as_often_as_it_takes_them(walker):
    found = alternatives_at(walker, 2, ids(3, 2), num_proposals=4000)
    assert {one.step_ids for one in found} == {ids(1), ids(3)}
    share = {one.step_ids: one.num_proposed / one.num_proposals for one in found}
    assert share[ids(3)] == pytest.approx(UP, abs=4 * math.sqrt(UP * (1 - UP) / 4000))
    assert [one.final_return for one in found] == [None, None]


def test_steps_come_in_the_order_of_the_proposals_whichever_ends_first(walker):
    found = alternatives_at(walker, 2, (), PAIRS, limit=3)
    firsts = [tuple(sample(request)[:4]) for request in walker.engine.requests]
    assert [one.step_ids for one in found] == list(dict.fromkeys(firsts))[:3]
    ends = [len(sample(request)) for request in walker.engine.requests]
    assert ends != sorted(ends)  # or the order of the proposals were that of their ends
    assert len({request.seed for request in walker.engine.requests}) == len(firsts)


def test_a_state_asks_for_more_only_while_it_lacks_alternatives(walker):
    found = alternatives_at(walker, 2, (), limit=2)
    assert len(walker.engine.requests) == ROUND == found[0].num_proposals
    before = len(walker.engine.requests)
    found = alternatives_at(walker, 2, (), limit=3, num_proposals=2 * ROUND + 1)
    assert len(walker.engine.requests) - before == 2 * ROUND + 1 == found[0].num_proposals
    assert sum(one.num_proposed for one in found) == 2 * ROUND + 1


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


def test_a_return_is_that_of_the_whole_response(walker):
    """Cut off after the answer, which stands before the state; graded as it is."""
    prefix = (TOKENIZER.convert_tokens_to_ids("####"), *ids(4, *[3] * (BUDGET // 2 - 2)))
    assert len(prefix) == BUDGET - 1
    with Grader(GradingConfig("hash", None, 1, 10.0, None)) as grader:
        found = alternatives_at(replace(walker, grader=grader), 3, prefix)
    assert [one.final_return for one in found] == [1, 1]


def test_a_step_is_cut_as_the_whole_response_is():
    state, lines, answer = (
        TOKENIZER.encode(text, add_special_tokens=False)
        for text in ("1+1=2\n", "2+3=5\n5*2=", "####5\n1+")
    )
    assert next_step_length(LINES, TOKENIZER, state, lines) == 6
    # An answer line belongs to the step before it, so after a state its next boundary counts.
    assert next_step_length(LINES, TOKENIZER, state, answer) == 3
    assert next_step_length(PAIRS, TOKENIZER, (1, 1, 1), (1,) * 9) == 1


def walk_job(walker, tmp_path, **settings):
    """The states after (3, 2) and after (3, 2, 1) of a walk from 2."""
    row = {"problem_id": "walk/2", "response_ids": ids(3, 2, 1, 2), "step_starts": [0, 2, 4, 6]}
    policies = SimpleNamespace(sampler=walker, prompt=lambda _: Prompt(problem(2), prompt_ids(2)))
    settings = {
        "checkpoint": 1, "num_proposals": 32, "num_alternatives": 5, "num_samples": 4000,
        "num_draws": 7,
    } | settings  # fmt: skip
    states = [RolloutState(row, 2), RolloutState(row, 3)]
    return Job(policies, states, Journal(tmp_path / "a.jsonl", settings), settings, "walk")


def test_what_follows_a_step_has_the_value_of_the_state_after_it(walker, tmp_path):
    job = walk_job(walker, tmp_path)
    alternatives, _ = propose(job, LINES)
    lines, _ = follow(job, alternatives)
    by_step = {
        (place, one.step_ids): (one, lines.get((place, index)))
        for place, of in alternatives.items()
        for index, one in enumerate(of)
    }
    for place, position, used in ((0, 1, 6), (0, 3, 6), (1, 2, 8)):
        _, found = by_step[place, ids(position)]
        true = value(position, BUDGET - used)
        error = math.sqrt(true * (1 - true) / 4000)
        assert found["truth"]["num_correct"] / 4000 == pytest.approx(true, abs=4 * error)
        assert len(found["draws"]["returns"]) == 7
    ended = {step_ids[0]: pair for (place, step_ids), pair in by_step.items() if place == 1}
    assert ended.keys() == {DIGITS[0], DIGITS[2]}
    assert (ended[DIGITS[0]][0].final_return, ended[DIGITS[0]][1]) == (0, None)
    seeds = [request.seed for request in walker.engine.requests]
    assert len(set(seeds)) == len(seeds)  # proposals, truth and draws are independent


OPTIONS = ["--checkpoints=1", "--num-states=6", "--num-samples=16", "--num-draws=4",
           "--num-alternatives=4", "--num-proposals=48", "--continuations=1,2"]  # fmt: skip


@pytest.fixture(scope="module")
def tables(trained_path, tmp_path_factory):  # noqa: F811
    """The table of checkpoint 1 undisturbed, and one whose sampling broke off twice."""
    folder = tmp_path_factory.mktemp("ranking")
    settings = {
        "num_states": 6, "num_alternatives": 4, "num_proposals": 48, "num_samples": 16,
        "num_draws": 4, "seed": 0,
    }  # fmt: skip
    settings = of_checkpoint(trained_path, 1, settings)
    config = read_config(trained_path, [])
    policy = policy_paths(trained_path, config.model.path)[1]
    whole, broken = (table_path(folder / name, trained_path, 1) for name in ("whole", "broken"))
    journal = broken.with_suffix(".partial.jsonl")
    with open_policies([trained_path], 0) as policies:
        sampling.make_table(policies, trained_path, policy, whole, settings)
        for kind in (PROPOSED, FOLLOWED):  # among the proposals, and among what follows
            with pytest.MonkeyPatch.context() as patch:
                break_when(patch, lambda kind=kind: journal.read_bytes().count(kind) >= 3)
                with pytest.raises(KeyboardInterrupt):
                    sampling.make_table(policies, trained_path, policy, broken, settings)
                patch.setattr(Journal, "append", lambda *_: None)
                while policies.sampler.engine.num_unfinished:  # a kill ends this, too
                    policies.sampler.engine.step()
            assert not broken.exists()
        num_states = read_ranking(whole).any_step.num_drawn_states
        assert journal.read_bytes().count(PROPOSED) == num_states
        left = sum(not step.is_terminal for s in read_ranking(whole).states for step in s.steps_A)
        assert 3 <= journal.read_bytes().count(FOLLOWED) < 2 * left
        sampling.make_table(policies, trained_path, policy, broken, settings)
    assert not journal.exists()
    return folder, whole, broken


def break_when(patch, is_time):
    """A KeyboardInterrupt between two steps of the engine."""

    def tick(_):
        if is_time():
            raise KeyboardInterrupt

    def advance(meter):
        meter.done += 1

    patch.setattr(Meter, "tick", tick)
    patch.setattr(Meter, "advance", advance)


def test_a_table_that_was_broken_off_is_the_same(tables):
    _, whole, broken = tables
    assert read_ranking(broken).states == read_ranking(whole).states


def test_alternatives_are_distinct_whole_steps_at_states_of_the_rollouts(tables, trained_path):  # noqa: F811
    table = read_ranking(tables[1])
    config = read_config(trained_path, [])
    segmenter = build_segmenter(config.credit.segmenter)
    with_tokenizer = open_tokenizer(trained_path)
    rows = {(r["problem_id"], r["rollout_index"]): r for r in read_rollouts(trained_path, 2)}
    assert table.states
    assert {state.is_query for state in table.states} == {True, False}
    for state in table.states:
        first = state.steps_A[0]
        row = rows[first.problem_id, first.rollout_index]
        prefix = row["response_ids"][: row["step_starts"][first.step_index]]
        assert len(prefix) == first.prefix_length
        assert 3 <= len(state.steps_A) <= 4
        assert len({step.step_ids for step in state.steps_A}) == len(state.steps_A)
        assert sum(step.num_proposed for step in state.steps_A) <= first.num_proposals <= 48
        for step in state.steps_A:
            whole = [*prefix, *step.step_ids]
            more = [] if step.is_terminal else with_tokenizer.encode("1+1=2\n2+2=4\n")
            texts = token_texts(with_tokenizer, [*whole, *more])
            ends = [span.end for span in segmenter(texts)]
            assert [end for end in ends if len(prefix) < end <= len(whole)] == [len(whole)]
            assert step.step_text == "".join(texts[len(prefix) : len(whole)])
            assert set(step.draws_D) <= {0, 1}
            assert len(step.draws_D) == 4
            is_end = step.step_ids[-1] == with_tokenizer.eos_token_id or len(whole) == 64
            assert step.is_terminal == is_end
            if step.is_terminal:
                assert step.num_correct in (0, 16)
                assert set(step.draws_D) == {step.num_correct // 16} == {step.critic_value}
                assert step.num_tokens == 0
            else:
                assert step.num_tokens >= 16


def open_tokenizer(run_path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(run_path / "checkpoints/iter_000001/policy")


def test_what_is_there_is_reported_without_an_engine(tables, trained_path, capsys, monkeypatch):  # noqa: F811
    out = tables[0] / "whole"
    monkeypatch.setattr(sampling, "open_policies", None)
    before = tables[1].stat().st_mtime_ns
    assert main(["action-ranking", str(trained_path), f"--out={out}", *OPTIONS]) == 0
    assert capsys.readouterr().out.split()[0] == str(tables[1])
    assert tables[1].stat().st_mtime_ns == before
    assert (out / "action_ranking.png").stat().st_size > 1000
    text = (out / "action_ranking.csv").read_text()
    assert {line.split(",")[5] for line in text.splitlines()[1:]} == {"mc_1", "mc_2", "critic"}
    other = [*OPTIONS, "--num-samples=17"]
    assert main(["action-ranking", str(trained_path), f"--out={out}", *other]) == 2
    assert "was made with num_samples 16, now it is 17" in capsys.readouterr().err
