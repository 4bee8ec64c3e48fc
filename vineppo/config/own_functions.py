"""The functions of a user's own files that a config names."""

from vineppo.config.schema import (
    PythonCredit,
    PythonSegmenter,
    PythonTaskConfig,
    SftConfig,
    TrainConfig,
)
from vineppo.own_code import OwnFunction


def own_functions(config: TrainConfig | SftConfig) -> list[OwnFunction]:
    """All of them, so that a missing one is found before anything starts."""
    found = []
    if isinstance(config.task, PythonTaskConfig):
        found.append(OwnFunction(config.task.path, "load"))
    if config.task.grading.reward_path is not None:
        found.append(OwnFunction(config.task.grading.reward_path, "reward"))
    if isinstance(config, TrainConfig):
        if isinstance(config.credit.segmenter, PythonSegmenter):
            found.append(OwnFunction(config.credit.segmenter.path, "cuts"))
        if isinstance(config.credit, PythonCredit):
            found.append(OwnFunction(config.credit.path, "advantages"))
    return found
