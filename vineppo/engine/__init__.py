"""Engines sample token ids from the policy; this package alone imports vllm."""

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

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


# By the class of their config; they take seconds to import.
ENGINES = {
    VllmConfig: "vllm_engine.VllmEngine",
    TransformersConfig: "transformers_engine.TransformersEngine",
}


def build_engine(config: EngineConfig, model: EngineModel) -> Engine:
    """The engine that `config.kind` names, with the weights of `model.path`."""
    if isinstance(config, VllmConfig) and find_spec("vllm") is None:
        raise UserError(
            "config: engine.kind must be 'transformers' where vllm is not installed, got 'vllm'"
        )
    module, name = ENGINES[type(config)].split(".")
    if isinstance(config, VllmConfig) and config.num_processes > 1:
        module, name = "processes", "EngineProcesses"
    engine: Engine = getattr(import_module(f"vineppo.engine.{module}"), name)(config, model)
    return engine


def lone_engine(config: EngineConfig) -> EngineConfig:
    """The engine of a command that runs in one process: a replica of its own."""
    return replace(config, tensor_parallel_size=1) if isinstance(config, VllmConfig) else config
