"""Credit estimators: from rewards and values to one advantage a step. One file each.

An estimator is a pure function of a rollout's state values and its terminal reward. Registering it
here under its config class is all the loop needs.
"""

from collections.abc import Callable, Sequence

from vineppo.config.schema import CreditConfig, VineCredit
from vineppo.credit.vine import vine_advantages

Estimator = Callable[[Sequence[float], float], list[float]]

ESTIMATORS: dict[type, Estimator] = {
    VineCredit: vine_advantages,
}


def step_advantages(config: CreditConfig, values_S: Sequence[float], reward: float) -> list[float]:
    """The advantages of a rollout's S steps by the estimator that `config.kind` names."""
    return ESTIMATORS[type(config)](values_S, reward)
