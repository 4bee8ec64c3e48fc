"""Credit estimators: from rewards and values to one advantage a token.

An estimator is a pure function of its config and the rollouts of one problem. Registering it here
under its config class is all the loop needs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from vineppo.config.schema import (
    CreditConfig,
    GaeCredit,
    GrpoCredit,
    PythonCredit,
    ReinforcePlusPlusBaselineCredit,
    ReinforcePlusPlusCredit,
    RemaxCredit,
    RlooCredit,
    VineCredit,
)
from vineppo.credit.gae import gae_credit
from vineppo.credit.groups import (
    grpo_credit,
    reinforce_plus_plus_baseline_credit,
    reinforce_plus_plus_credit,
    remax_credit,
    rloo_credit,
)
from vineppo.credit.own import python_credit
from vineppo.credit.vine import vine_credit
from vineppo.types import Rollout

# (config, rollouts of a problem) → advantages_T of every rollout.
CreditEstimator = Callable[[Any, Sequence[Rollout]], list[list[float]]]

ESTIMATORS: dict[type, CreditEstimator] = {
    VineCredit: vine_credit,
    GaeCredit: gae_credit,
    GrpoCredit: grpo_credit,
    RlooCredit: rloo_credit,
    ReinforcePlusPlusCredit: reinforce_plus_plus_credit,
    ReinforcePlusPlusBaselineCredit: reinforce_plus_plus_baseline_credit,
    RemaxCredit: remax_credit,
    PythonCredit: python_credit,
}


def token_advantages(config: CreditConfig, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """One advantage a response token for every rollout of a problem, by `config`'s estimator."""
    return ESTIMATORS[type(config)](config, rollouts_G)
