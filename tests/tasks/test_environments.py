"""Episodes: what the environment answers, where they end, and that they can be acted out again."""

import math
from itertools import count

import pytest
from support.drills import MODEL, TASK, TRUNCATED_REWARD, drill, drill_problem, ids
from support.random_walk import TOKENIZER

from vineppo.config.schema import EnvironmentConfig
from vineppo.errors import UserError
from vineppo.tasks.environments import Environment, Episode, Observation
from vineppo.types import Turn

PROBLEM = drill_problem("4+6-5?")  # 0, then 5


def episode(max_tokens=64, prefix_ids=(), **limits):
    return Episode(drill(**limits), PROBLEM, max_tokens, tuple(prefix_ids))


def test_a_turn_that_is_too_long_ends_the_episode():
    one = episode(max_turn_tokens=3)
    one.act(ids("0\n"), "stop")
    assert one.room == 3
    one.act(ids("555"), "length")
    assert (one.finish_reason, one.reward) == ("length", TRUNCATED_REWARD)
    assert one.turns[-1] == Turn(6, 9, "1 0", TRUNCATED_REWARD)


@pytest.mark.parametrize(("max_tokens", "room"), [(6, None), (7, 1), (8, 2), (64, 4)])
def test_a_response_without_room_for_the_next_turn_ends_with_the_last(max_tokens, room):
    """Two tokens of the policy and four of the environment leave room for a turn, or none."""
    one = episode(max_tokens)
    one.act(ids("0\n"), "stop")
    if room is not None:
        assert (one.room, one.finish_reason) == (room, None)
        return
    assert tuple(one.response_ids) == ids("0\n")
    assert (one.finish_reason, one.reward) == ("length", TRUNCATED_REWARD)


def test_every_prefix_can_be_acted_out_again():
    whole = episode()
    for action in ("7\n", "5\n"):
        whole.act(ids(action), "stop")
    for length in range(len(whole.response_ids)):
        one = episode(prefix_ids=whole.response_ids[:length])
        assert one.response_ids[:length] == whole.response_ids[:length]
        for turn in whole.turns[len(one.turns) :]:
            one.act(whole.response_ids[len(one.response_ids) : turn.end], "stop")
        assert one.response_ids == whole.response_ids
        assert (one.turns, one.reward) == (whole.turns, 1.0)


def test_what_was_written_of_a_turn_counts_towards_its_limit():
    assert episode(prefix_ids=ids("0\n0-5=55")).room == 2


class Other(Environment):
    """Answers each turn with the next digit, whatever the problem: its copies share them."""

    stop_ids = ids("\n")
    digits = count(1)

    def reset(self, _):
        return Observation(())

    def step(self, _):
        return Observation(ids(str(next(self.digits))))


def begun(kind, prefix_ids=()):
    config = EnvironmentConfig("other", max_turn_tokens=8)
    return Episode(kind(config, TASK, TOKENIZER, MODEL), PROBLEM, 64, prefix_ids)


def test_an_environment_that_answers_otherwise_the_next_time_is_refused():
    with pytest.raises(UserError, match=r"task\.environment: the same turns of problem drill/"):
        begun(Other, ids("+\n2"))


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [(Observation((21,)), r"token ids must be below 21, got \[21\]"),
     (Observation((), reward=math.nan), "rewards must be finite, got nan")],
)  # fmt: skip
def test_what_no_environment_may_say(seen, complaint):
    class Wrong(Other):
        def reset(self, _):
            return seen

    with pytest.raises(UserError, match=complaint):
        begun(Wrong)
