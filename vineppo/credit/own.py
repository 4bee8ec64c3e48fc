"""Advantages by a user's own file: `advantages(options, rollouts_G) -> list[list[float]]`."""

import math
from collections.abc import Sequence

from vineppo.config.schema import PythonCredit
from vineppo.errors import UserError
from vineppo.own_code import OwnFunction
from vineppo.types import Rollout


def python_credit(config: PythonCredit, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """What the file returns: one advantage for every token of every rollout.

    Raises `UserError` where the numbers of rollouts or of tokens differ, and where an advantage is
    not finite, which would be the end of the policy.
    """
    found_G = OwnFunction(config.path, "advantages")(config.options, rollouts_G)
    expected_G = [len(rollout.rewards_T) for rollout in rollouts_G]
    lengths_G = [len(found_T) for found_T in found_G]
    if lengths_G != expected_G:
        raise UserError(
            f"{config.path}: advantages must return a number for every token of every rollout, "
            f"{expected_G}, got {lengths_G}"
        )
    advantages_G = [[float(advantage) for advantage in found_T] for found_T in found_G]
    for rollout, advantages_T in enumerate(advantages_G):
        for token, advantage in enumerate(advantages_T):
            if not math.isfinite(advantage):
                raise UserError(
                    f"{config.path}: advantages must return finite numbers, got {advantage} for "
                    f"token {token} of rollout {rollout}"
                )
    return advantages_G
