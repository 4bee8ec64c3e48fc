"""Engines sample token ids from the policy; this package alone imports vllm."""

from vineppo.config.schema.engine import EngineConfig as EngineConfig
from vineppo.engine.interface import *  # noqa: F403 (it holds nothing but the interface)
