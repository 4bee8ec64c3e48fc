"""Engines sample token ids from the policy; this package alone imports vllm."""

from collections.abc import Callable

from vineppo.config.schema import EngineConfig, VllmConfig
from vineppo.engine.interface import Completion, Engine, EngineCounts, EngineModel, SampleRequest

__all__ = ["Completion", "Engine", "EngineCounts", "EngineModel", "SampleRequest", "build_engine"]


def build_engine(config: EngineConfig, model: EngineModel) -> Engine:
    """The engine that `config.kind` names, with the weights of `model.path`."""
    return ENGINES[type(config)](config, model)


def _vllm(config: VllmConfig, model: EngineModel) -> Engine:
    from vineppo.engine.vllm_engine import VllmEngine  # vllm takes seconds to import

    return VllmEngine(config, model)


ENGINES: dict[type, Callable[[VllmConfig, EngineModel], Engine]] = {VllmConfig: _vllm}
