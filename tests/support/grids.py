"""Grids of which `make test` runs the first cases, and `make test-full` all."""

from collections.abc import Iterable

import pytest


def grid(*quick: object, slow: Iterable[object]) -> list[object]:
    """Values of `parametrize`; a case of several is a tuple."""
    return [*quick, *(pytest.param(*_tuple(case), marks=pytest.mark.slow) for case in slow)]


def _tuple(case: object) -> tuple[object, ...]:
    return case if isinstance(case, tuple) else (case,)
