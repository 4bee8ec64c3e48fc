"""The functions of a user's own files that a config names."""

from vineppo.config.schema import (
    PythonCredit,
    PythonSegmenter,
    PythonTaskConfig,
    SftConfig,
    TaskConfig,
    TrainConfig,
)
from vineppo.own_code import OwnFunction, OwnSegmenter, digest


def own_functions(config: TrainConfig | SftConfig) -> list[OwnFunction | OwnSegmenter]:
    """All of them, so that a missing one is found before anything starts."""
    found: list[OwnFunction | OwnSegmenter] = [*own_task_functions(config.task)]
    if isinstance(config, TrainConfig):
        if isinstance(config.credit.segmenter, PythonSegmenter):
            found.append(OwnSegmenter(config.credit.segmenter.path))
        if isinstance(config.credit, PythonCredit):
            found.append(OwnFunction(config.credit.path, "advantages"))
    return found


def own_task_functions(task: TaskConfig) -> list[OwnFunction]:
    """Those of the problems and their rewards, which are all that an evaluation calls."""
    found = []
    if isinstance(task, PythonTaskConfig):
        found.append(OwnFunction(task.path, "load"))
    if task.grading.reward_path is not None:
        found.append(OwnFunction(task.grading.reward_path, "reward"))
    return found


def own_digests(config: TrainConfig | SftConfig) -> dict[str, str]:
    """The SHA-256 of every file that has one of them, by the path that the config names."""
    return {function.path: digest(function.path) for function in own_functions(config)}
