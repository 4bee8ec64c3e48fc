"""Credit estimators: from rewards and values to one advantage a step. One file each.

An estimator is a pure function of a rollout's terminal reward and its state values. Registering it
here under its config class is all the loop needs.
"""

from collections.abc import Callable, Sequence

from vineppo.config.schema import CreditConfig, VineCredit
from vineppo.credit.vine import vine_advantages

Estimator = Callable[[CreditConfig, float, Sequence[float]], list[float]]

ESTIMATORS: dict[type, Estimator] = {
    VineCredit: lambda config, reward, values_S: vine_advantages(values_S, reward),
}


def step_advantages(config: CreditConfig, reward: float, values_S: Sequence[float]) -> list[float]:
    """The advantages of a rollout's S steps by the estimator that `config.kind` names."""
    return ESTIMATORS[type(config)](config, reward, values_S)
