"""Engines sample token ids from the policy; this package alone imports vllm."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from vineppo.config.schema import EngineConfig, TransformersConfig, VllmConfig
from vineppo.engine.interface import Completion, Engine, EngineCounts, EngineModel, SampleRequest
from vineppo.errors import UserError

__all__ = [
    "Completion",
    "Engine",
    "EngineCounts",
    "EngineModel",
    "SampleRequest",
    "build_engine",
    "lone_engine",
]


def build_engine(config: EngineConfig, model: EngineModel) -> Engine:
    """The engine that `config.kind` names, with the weights of `model.path`."""
    return ENGINES[type(config)](config, model)


def lone_engine(config: EngineConfig) -> EngineConfig:
    """The engine of a command that runs in one process: a replica of its own."""
    return replace(config, tensor_parallel_size=1) if isinstance(config, VllmConfig) else config


def _vllm(config: VllmConfig, model: EngineModel) -> Engine:
    if find_spec("vllm") is None:
        raise UserError(
            "config: engine.kind must be 'transformers' where vllm is not installed, got 'vllm'"
        )
    from vineppo.engine.vllm_engine import VllmEngine  # vllm takes seconds to import

    return VllmEngine(config, model)


def _transformers(config: TransformersConfig, model: EngineModel) -> Engine:
    from vineppo.engine.transformers_engine import TransformersEngine

    return TransformersEngine(config, model)


ENGINES: dict[type, Callable[[Any, EngineModel], Engine]] = {
    VllmConfig: _vllm,
    TransformersConfig: _transformers,
}
