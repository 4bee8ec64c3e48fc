"""The drill: it gives a question's operations one by one, and goes on from the policy's results."""

import pytest
from support.drills import drill, drill_problem, ids

from vineppo.tasks.environments import Episode
from vineppo.types import Turn

PROBLEM = drill_problem("4+6-5?")  # 0, then 5


def test_a_drill_goes_on_from_the_policys_results():
    one = Episode(drill(), PROBLEM, 64)
    assert one.opening_ids == ids("4+6=")
    one.act(ids("7\n"), "stop")
    assert (tuple(one.response_ids), one.finish_reason) == (ids("7\n7-5="), None)
    one.act(ids("5\n"), "stop")  # the chain's result, in spite of what was before it
    assert tuple(one.response_ids) == ids("7\n7-5=5\n")
    assert one.finish_reason == "stop"
    assert one.turns == [Turn(0, 2, "0 4", 0.0), Turn(6, 8, "1 7", 1.0)]
    assert one.reward == 1.0


@pytest.mark.parametrize("action", ["?\n", "12\n", "\n", "1<eos>", "<eos>"])
def test_anything_but_a_digit_ends_a_drill(action):
    one = Episode(drill(), PROBLEM, 64)
    one.act(ids(action), "stop")
    assert (one.finish_reason, one.reward) == ("stop", 0.0)
    assert tuple(one.response_ids) == ids(action)
