"""Credit estimators: from rewards and values to one advantage a token. One file each.

An estimator is a pure function of its config and the trajectories of one problem's G rollouts.
Registering it here under its config class is all the loop needs.
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
    SampledValues,
    VineCredit,
)
from vineppo.credit.gae import gae_credit
from vineppo.credit.grpo import grpo_credit
from vineppo.credit.python import python_credit
from vineppo.credit.reinforce_plus_plus import (
    reinforce_plus_plus_baseline_credit,
    reinforce_plus_plus_credit,
)
from vineppo.credit.remax import remax_credit
from vineppo.credit.rloo import rloo_credit
from vineppo.credit.vine import vine_credit
from vineppo.types import Trajectory

# (config, trajectories of a problem) → advantages_T of every rollout.
Estimator = Callable[[Any, Sequence[Trajectory]], list[list[float]]]

ESTIMATORS: dict[type, Estimator] = {
    VineCredit: vine_credit,
    GaeCredit: gae_credit,
    GrpoCredit: grpo_credit,
    RlooCredit: rloo_credit,
    ReinforcePlusPlusCredit: reinforce_plus_plus_credit,
    ReinforcePlusPlusBaselineCredit: reinforce_plus_plus_baseline_credit,
    RemaxCredit: remax_credit,
    PythonCredit: python_credit,
}


def sampled_values(config: CreditConfig) -> SampledValues | None:
    """The config where the estimator takes Monte-Carlo values, else None."""
    takes = isinstance(config, SampledValues) and config.num_continuations > 0
    return config if takes else None  # type: ignore[return-value]


def token_advantages(
    config: CreditConfig, trajectories_G: Sequence[Trajectory]
) -> list[list[float]]:
    """One advantage a response token for every rollout of a problem, by `config`'s estimator."""
    return ESTIMATORS[type(config)](config, trajectories_G)
