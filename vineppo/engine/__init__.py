"""Engines sample token ids from the policy; this package alone imports vllm."""

from vineppo.engine.interface import Completion, Engine, EngineCounts, EngineModel, SampleRequest

__all__ = ["Completion", "Engine", "EngineCounts", "EngineModel", "SampleRequest"]
