"""Value predictors: plug-ins of the role "values", for training and for every analysis alike."""

from pathlib import Path

from vineppo.config.schema import TrainConfig
from vineppo.models import LoadedModel
from vineppo.values.predictor import ValuePredictor

__all__ = ["ValuePredictor", "build_predictors", "feeding_predictor", "predictors_at"]


def build_predictors(config: TrainConfig, loaded: LoadedModel | None) -> list[ValuePredictor]:
    """The estimator's continuations, the critic, and `values.predictors`."""
    held = config.predictors.items()
    return [keys.predictor.build(name, config, keys, loaded) for name, keys in held]


def predictors_at(config: TrainConfig, directory: Path | None) -> list[ValuePredictor]:
    """The same, frozen, from the checkpoint at `directory`; None: as training starts.

    A predictor that was not saved is left out.
    """
    loaded = [
        keys.predictor.at_checkpoint(name, config, keys, directory)
        for name, keys in config.predictors.items()
    ]
    return [predictor for predictor in loaded if predictor is not None]


def feeding_predictor(config: TrainConfig) -> str | None:
    """The name of the predictor that feeds the credit estimator, if any."""
    return config.values.credit or config.credit.fed_by
