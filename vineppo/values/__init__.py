"""The values room: everything that says what a state is worth, behind one interface.

A predictor is a plug-in of the role "values", for training and for every analysis alike.
"""

from pathlib import Path

from vineppo.config.schema import PredictorConfig, TrainConfig
from vineppo.models import LoadedModel
from vineppo.values.predictor import ValuePredictor

__all__ = ["ValuePredictor", "build_predictors", "feeding_predictor", "predictors_at"]


def build_predictors(config: TrainConfig, loaded: LoadedModel | None) -> list[ValuePredictor]:
    """All that the run has: the estimator's continuations, the critic, and `values.predictors`."""
    return [
        own.predictor.build(name, config, own, loaded) for name, own in _in_order(config).items()
    ]


def predictors_at(config: TrainConfig, directory: Path | None) -> list[ValuePredictor]:
    """The same as the checkpoint at `directory` has them, None: as training starts.

    They are asked for values, and train no more. One that was not saved is left out.
    """
    loaded = [
        own.predictor.at_checkpoint(name, config, own, directory)
        for name, own in _in_order(config).items()
    ]
    return [predictor for predictor in loaded if predictor is not None]


def feeding_predictor(config: TrainConfig) -> str | None:
    """The name of the predictor whose values the credit estimator takes; None: it takes none."""
    if config.values.credit is not None:
        return config.values.credit
    return config.credit.fed_by


def _in_order(config: TrainConfig) -> dict[str, PredictorConfig]:
    """Those that read others' values come last."""
    return dict(sorted(config.predictors.items(), key=lambda item: item[1].values_of is not None))
