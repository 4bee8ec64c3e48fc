"""Worlds whose values are known: one small enough to enumerate, and chains that break."""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from support.rollouts import spans
from vineppo.types import MONTE_CARLO, Problem, Rollout, StateValue

# Two binary actions: the probability of a 1 at the root, and after a 0 or a 1; the reward is 1
# where both actions are the same.
FIRST, SECOND = 0.3, (0.6, 0.8)
VALUES = (1 - SECOND[0], SECOND[1])
ROOT = (1 - FIRST) * VALUES[0] + FIRST * VALUES[1]


def made(problem, index, response_ids, reward, returns_S, lengths_S=None):
    """A rollout with its continuations' returns: a tuple for every step."""
    returns_S = tuple(StateValue(tuple(map(float, returns_K)), 7) for returns_K in returns_S)
    return Rollout(
        problem=Problem(problem, "q", "a"),
        rollout_index=index,
        prompt_ids=(1,),
        response_ids=tuple(response_ids),
        logprobs_T=(-0.5,) * len(response_ids),
        finish_reason="stop",
        text="",
        reward=float(reward),
        spans_S=spans(lengths_S or [1] * len(returns_S)),
        returns_S={MONTE_CARLO: returns_S},
    )


def outcomes() -> Iterator[tuple[float, list[Rollout]]]:
    """All that two rollouts of a problem and a continuation of each of its states may come to.

    Each with its probability. Another problem's rollouts, always the same, come after them.
    """

    def of_toss(p: float, is_one: int) -> float:
        return p if is_one else 1 - p

    elsewhere = [
        made("q", 0, (0, 0), 1, [(1,), (1,)]),
        made("q", 1, (1, 0), 0, [(1,), (0,)]),
        made("q", 2, (1, 1), 0, [(1,), (0,)]),
    ]
    for first, second, third, fourth, at_root, *at in product((0, 1), repeat=7):
        probability = of_toss(ROOT, at_root)
        probability *= of_toss(VALUES[0], at[0]) * of_toss(VALUES[1], at[1])
        rollouts = []
        for index, actions in enumerate(((first, second), (third, fourth))):
            a, b = actions
            probability *= of_toss(FIRST, a) * of_toss(SECOND[a], b)
            rollouts.append(made("p", index, actions, a == b, [(at_root,), (at[a],)]))
        yield probability, rollouts + elsewhere


def score_covariances(estimate: Callable[[list[Rollout]], None], name: str) -> tuple[float, float]:
    """E[∂log π(a|s) · V̂(s)] of the first rollout's actions, by logits: 0 for a fair baseline."""
    totals = [0.0, 0.0]
    for probability, rollouts in outcomes():
        estimate(rollouts)
        (a, b), values_S = rollouts[0].response_ids, rollouts[0].values_S(name)
        totals[0] += probability * (a - FIRST) * values_S[0]
        totals[1] += probability * (b - SECOND[a]) * values_S[1]
    return totals[0], totals[1]


def means_after(estimate: Callable[[list[Rollout]], None], name: str) -> tuple[float, float]:
    """E[V̂(s_1) | s_1] after a first action 0 and 1; an unbiased Q̂ has `VALUES`."""
    totals = [0.0, 0.0]
    for probability, rollouts in outcomes():
        estimate(rollouts)
        totals[rollouts[0].response_ids[0]] += probability * rollouts[0].values_S(name)[1]
    return totals[0] / (1 - FIRST), totals[1] / FIRST


def chains(
    seed: int, num_continuations: int, num_problems: int = 40, num_samples: int = 8, length: int = 8
) -> tuple[list[Rollout], list[np.ndarray]]:
    """Rollouts of chains of steps, and the true values of their states.

    Two of a problem's steps are hard: they break the chain with a probability between 0.1 and 0.6.
    A broken one stays so, and the reward is 1 where it never breaks. A response has a 1 for each
    step that holds; what it has after a break is its own. Continuations of one state are shared.
    """
    draw = np.random.default_rng(seed)
    rollouts, values = [], []
    for problem in range(num_problems):
        holds_S = np.ones(length)
        holds_S[draw.choice(length, 2, replace=False)] = draw.uniform(0.4, 0.9, 2)
        ahead_S = np.cumprod(holds_S[::-1])[::-1]
        found: dict[tuple[int, ...], np.ndarray] = {}
        for index in range(num_samples):
            is_whole_S = np.cumprod(draw.random(length) < holds_S)
            ids = tuple(1 if whole else 10 + index for whole in is_whole_S)
            before_S = np.array([1, *is_whole_S[:-1]])
            values_S = ahead_S * before_S
            returns_S = []
            for step, value in enumerate(values_S):
                returns_K = (draw.random(num_continuations) < value).astype(float)
                returns_S.append(found.setdefault(ids[:step], returns_K))
            rollouts.append(made(f"p{problem}", index, ids, is_whole_S[-1], returns_S))
            values.append(values_S)
    return rollouts, values


def squared_error(rollouts: list[Rollout], values: list[np.ndarray], name: str | None) -> float:
    """The mean over all states, of a predictor's values or, with None, of the mean returns."""
    errors = []
    for one, values_S in zip(rollouts, values, strict=True):
        means_S = [state.mean for state in one.returns_S[MONTE_CARLO]]
        errors.extend(np.subtract(values_S, means_S if name is None else one.values_S(name)) ** 2)
    return float(np.mean(errors))
