"""The keys of vLLM."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vineppo.config.schema.engine import EngineConfig
from vineppo.config.schema.scalars import Count, PositiveFraction
from vineppo.errors import UserError

if TYPE_CHECKING:
    from vineppo.engine import Engine, EngineModel


@dataclass(frozen=True)
class VllmConfig(EngineConfig):
    """vLLM in this process."""

    # Tokens of a KV block, the grain of the prefix cache; a multiple of 32 on a CPU.
    block_size: Count = 16
    cpu_kv_cache_gib: Count = 4  # CPU only
    gpu_memory_utilization: PositiveFraction = 0.5  # CUDA only; the trainer needs the rest
    enforce_eager: bool = False
    sleep_while_training: bool = True  # CUDA only: give the KV cache's memory to the trainer

    def build(self, model: "EngineModel") -> "Engine":
        check_installed(self.kind)
        from vineppo.engine.vllm_engine import VllmEngine

        return VllmEngine(self, model)

    def options(self, on_gpu: bool) -> dict[str, Any]:
        """Arguments of `vllm.LLM` that say how ranks divide the work: here each samples alone."""
        # vLLM's own executor would put every rank on the first GPU: the launcher's has LOCAL_RANK.
        is_launched = on_gpu and "RANK" in os.environ
        return {"distributed_executor_backend": "external_launcher" if is_launched else "uni"}


def check_installed(kind: str) -> None:
    if find_spec("vllm") is None:
        raise UserError(
            f"config: engine.kind must be 'transformers' where vllm is not installed, got {kind!r}"
        )
