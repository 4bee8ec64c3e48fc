"""Every key of every shipped config misspelt, mistyped and out of range: one line each."""

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from config.test_load import CONFIGS, LEAVES, kind_of
from support.grids import grid

from vineppo.config.load import complete, evaluate_jsonnet, parse_config
from vineppo.errors import UserError

Table = dict[str, Any]
ANY_NUMBER = {"seed", "data_seed", "truncated_reward", "low", "high"}  # is right
QUICK = ("demo_vineppo", "reward_model_arithmetic", "sft_arithmetic")


def keys(table: Table, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from keys(value, (*above, key))


def changed(resolved: Table, place: tuple[str, ...], how: str) -> Table | None:
    """A copy with one mistake; None where the value has no such one."""
    copy = deepcopy(resolved)
    table = copy
    for key in place[:-1]:
        table = table[key]
    key = place[-1]
    value = table[key]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if how == "misspelt":
        table[f"{key}x"] = table.pop(key)
    elif how == "mistyped":
        table[key] = [[1]] if isinstance(value, str | None) else "no such thing"
    elif not is_number or key in ANY_NUMBER:
        return None
    else:
        table[key] = {"far below": -(10**9), "far above": 10**12, "no number": math.nan}[how]
    return copy


@pytest.mark.parametrize("leaf", grid(*QUICK, slow=[leaf for leaf in LEAVES if leaf not in QUICK]))
def test_a_mistake_is_one_line_that_names_the_key(leaf: str) -> None:
    kind = kind_of(leaf)
    resolved = complete(evaluate_jsonnet(str(CONFIGS / f"{leaf}.jsonnet")))
    accepted, unnamed = set(), set()
    for place in keys(resolved):
        for how in ("misspelt", "mistyped", "far below", "far above", "no number"):
            mistaken = changed(resolved, place, how)
            if mistaken is None:
                continue
            try:
                parse_config(kind, mistaken)
            except UserError as error:
                message = str(error)
                if place[-1] not in message:
                    unnamed.add((".".join(place), how, message))
            else:
                if how == "deleted":
                    continue  # it has a default
                accepted.add((".".join(place), how))
    assert unnamed == set()
    assert accepted == set()
