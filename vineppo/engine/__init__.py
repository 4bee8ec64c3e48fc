"""Engines sample token ids from the policy; this package alone imports vllm."""

from vineppo.config.schema.engine import EngineConfig
from vineppo.engine.interface import (
    Completion,
    Engine,
    EngineCounts,
    EngineModel,
    SampleRequest,
    check_request,
)

__all__ = [
    "Completion",
    "Engine",
    "EngineConfig",
    "EngineCounts",
    "EngineModel",
    "SampleRequest",
    "check_request",
]
