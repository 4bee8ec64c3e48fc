"""The values room: everything that says what a state is worth, behind one interface.

A predictor is a file here and its table in `config/schema/values.py`, which names it, for training
and for every analysis alike.
"""

from importlib import import_module
from pathlib import Path

from vineppo.config.schema import TrainConfig, Values
from vineppo.models import LoadedModel
from vineppo.types import CRITIC, MONTE_CARLO
from vineppo.values.predictor import ValuePredictor

__all__ = ["ValuePredictor", "build_predictors", "feeding_predictor", "predictors_at"]


def build_predictors(config: TrainConfig, loaded: LoadedModel) -> list[ValuePredictor]:
    """All that the run has: the estimator's continuations, the critic, and `values.predictors`."""
    return [
        _implementation(own)(name, config, own, loaded) for name, own in _configs(config).items()
    ]


def predictors_at(config: TrainConfig, directory: Path | None) -> list[ValuePredictor]:
    """The same as the checkpoint at `directory` has them, None: as training starts.

    They are asked for values, and train no more. One that was not saved is left out.
    """
    loaded = [
        _implementation(own).at_checkpoint(name, config, own, directory)
        for name, own in _configs(config).items()
    ]
    return [predictor for predictor in loaded if predictor is not None]


def feeding_predictor(config: TrainConfig) -> str | None:
    """The name of the predictor whose values the credit estimator takes; None: it takes none."""
    if config.values.credit is not None:
        return config.values.credit
    return config.credit.fed_by


def _implementation(own: Values) -> type[ValuePredictor]:
    module, name = own.implementation.split(":")
    implementation: type[ValuePredictor] = getattr(import_module(f"vineppo.values.{module}"), name)
    return implementation


def _configs(config: TrainConfig) -> dict[str, Values]:
    wanted: dict[str, Values | None] = {
        MONTE_CARLO: config.credit.monte_carlo,
        CRITIC: config.critic,
        **config.values.predictors,
    }
    held = {name: own for name, own in wanted.items() if own is not None}
    return dict(sorted(held.items(), key=lambda item: item[1].values_of is not None))
