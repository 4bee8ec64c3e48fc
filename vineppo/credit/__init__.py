"""Credit estimators: from rewards and values to one advantage a token.

An estimator is a pure function of its config and the rollouts of one problem. Registering it here
under its config class is all the loop needs.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from vineppo.config.schema import (
    CreditConfig,
    DoublyRobustCredit,
    GaeCredit,
    GigpoCredit,
    GrpoCredit,
    JoinedCredit,
    MartingaleCredit,
    PythonCredit,
    ReinforcePlusPlusBaselineCredit,
    ReinforcePlusPlusCredit,
    RemaxCredit,
    RlooCredit,
    TreeCredit,
    VineCredit,
)
from vineppo.credit.doubly_robust import doubly_robust_credit
from vineppo.credit.gae import gae_credit
from vineppo.credit.gigpo import gigpo_credit
from vineppo.credit.groups import (
    grpo_credit,
    reinforce_plus_plus_baseline_credit,
    reinforce_plus_plus_credit,
    remax_credit,
    rloo_credit,
)
from vineppo.credit.joined import joined_credit
from vineppo.credit.martingale import martingale_credit
from vineppo.credit.tree import tree_credit
from vineppo.credit.vine import vine_credit
from vineppo.errors import UserError
from vineppo.own_code import OwnFunction
from vineppo.types import Rollout


def python_credit(config: PythonCredit, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """What `advantages(options, rollouts_G)` of a user's own file returns: one advantage a token.

    Raises `UserError` where the numbers of rollouts or of tokens differ, and where an advantage is
    not finite, which would be the end of the policy.
    """
    found_G = OwnFunction(config.path, "advantages")(config.options, rollouts_G)
    must = f"{config.path}: advantages must return"
    if len(found_G) != len(rollouts_G):
        raise UserError(f"{must} a list a rollout, {len(rollouts_G)}, got {len(found_G)}")
    for index, (found_T, rollout) in enumerate(zip(found_G, rollouts_G, strict=True)):
        if len(found_T) != len(rollout.rewards_T):
            raise UserError(
                f"{must} a number a token, {len(rollout.rewards_T)} for rollout {index}, got "
                f"{len(found_T)}"
            )
        for token, advantage in enumerate(found_T):
            if not math.isfinite(advantage):
                raise UserError(
                    f"{must} finite numbers, got {advantage} for token {token} of rollout {index}"
                )
    return [[float(advantage) for advantage in found_T] for found_T in found_G]


# (config, rollouts of a problem) → advantages_T of every rollout.
CreditEstimator = Callable[[Any, Sequence[Rollout]], list[list[float]]]

ESTIMATORS: dict[type, CreditEstimator] = {
    VineCredit: vine_credit,
    GaeCredit: gae_credit,
    GrpoCredit: grpo_credit,
    GigpoCredit: gigpo_credit,
    TreeCredit: tree_credit,
    RlooCredit: rloo_credit,
    MartingaleCredit: martingale_credit,
    JoinedCredit: joined_credit,
    DoublyRobustCredit: doubly_robust_credit,
    ReinforcePlusPlusCredit: reinforce_plus_plus_credit,
    ReinforcePlusPlusBaselineCredit: reinforce_plus_plus_baseline_credit,
    RemaxCredit: remax_credit,
    PythonCredit: python_credit,
}


def token_advantages(config: CreditConfig, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """One advantage a response token for every rollout of a problem, by `config`'s estimator."""
    return ESTIMATORS[type(config)](config, rollouts_G)
