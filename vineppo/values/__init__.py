"""The values room: everything that says what a state is worth, behind one interface.

A predictor is a file here and a line in `PREDICTORS`, for training and for every analysis alike.
"""

from collections.abc import Callable
from typing import Any

from vineppo.config.schema import (
    GroupMeanValues,
    MonteCarloValues,
    PythonValues,
    SeparateCritic,
    SharedCritic,
    TrainConfig,
)
from vineppo.models import LoadedModel
from vineppo.types import CRITIC, MONTE_CARLO
from vineppo.values.group_mean import GroupMean
from vineppo.values.monte_carlo import MonteCarlo
from vineppo.values.own import OwnPredictor
from vineppo.values.predictor import ValuePredictor
from vineppo.values.separate import SeparateValueModel
from vineppo.values.shared import SharedValueHead

__all__ = ["ValuePredictor", "build_predictors", "feeding_predictor"]

# (name, the run's config, the predictor's config, the starting policy) → predictor.
PREDICTORS: dict[type, Callable[[str, TrainConfig, Any, LoadedModel], ValuePredictor]] = {
    MonteCarloValues: MonteCarlo,
    SeparateCritic: SeparateValueModel,
    SharedCritic: SharedValueHead,
    GroupMeanValues: GroupMean,
    PythonValues: OwnPredictor,
}


def build_predictors(config: TrainConfig, loaded: LoadedModel) -> list[ValuePredictor]:
    """All that the run has: the estimator's continuations, the critic, and `values.predictors`."""
    wanted = {
        MONTE_CARLO: config.credit.monte_carlo,
        CRITIC: config.critic,
        **config.values.predictors,
    }
    return [
        PREDICTORS[type(own)](name, config, own, loaded)
        for name, own in wanted.items()
        if own is not None
    ]


def feeding_predictor(config: TrainConfig) -> str | None:
    """The name of the predictor whose values the credit estimator takes; None: it takes none."""
    if config.values.credit is not None:
        return config.values.credit
    own = config.credit.own_values
    return CRITIC if own == MONTE_CARLO and config.credit.monte_carlo is None else own
