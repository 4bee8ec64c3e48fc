from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vineppo.schedules import learning_rate, problems_of_iteration, with_redraws


def test_learning_rate_docstring_example():
    rates = [learning_rate(u, 10, 1.0, 0.2, "linear") for u in range(10)]
    assert rates == pytest.approx([0.5, 1, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])


def test_constant_after_warmup_and_no_warmup():
    assert [learning_rate(u, 4, 2.0, 0.5, "constant") for u in range(4)] == [1.0, 2.0, 2.0, 2.0]
    assert learning_rate(0, 4, 2.0, 0.0, "constant") == 2.0


@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 3))
def test_iterations_hold_distinct_problems_and_epochs_hold_all(num_prompts, extra, seed):
    num_problems = num_prompts + extra - 1
    chosen = [
        problems_of_iteration(num_problems, num_prompts, iteration, seed)
        for iteration in range(1, 3 * num_problems)
    ]
    assert all(len(set(indices)) == len(indices) == num_prompts for indices in chosen)
    flat = [i for indices in chosen for i in indices]
    whole = flat[: len(flat) // num_problems * num_problems]
    assert set(Counter(whole).values()) == {len(whole) // num_problems}


def test_redraws_are_of_problems_that_the_iteration_has_not_had():
    chosen = problems_of_iteration(20, 4, 3, 0)
    order = with_redraws(chosen, 20, 3, 0)
    assert order[:4] == chosen
    assert sorted(order) == [*range(20)]
    assert order[4:] != sorted(order[4:])
    assert with_redraws(chosen, 20, 4, 0)[4:] != order[4:]


def test_more_prompts_than_problems_is_refused():
    with pytest.raises(ValueError, match="num_prompts must be at most 3, got 4"):
        problems_of_iteration(3, 4, 1, 0)
