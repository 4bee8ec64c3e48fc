"""The keys of vLLM."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from vineppo.config.require import require
from vineppo.config.schema.engine import EngineConfig
from vineppo.config.schema.scalars import Count, PositiveFraction
from vineppo.errors import UserError

if TYPE_CHECKING:
    from vineppo.engine import Engine, EngineModel


@dataclass(frozen=True)
class VllmConfig(EngineConfig):
    """vLLM, in this process or in several of their own."""

    # Tokens of a KV block, the grain of the prefix cache; a multiple of 32 on a CPU.
    block_size: Count
    tensor_parallel_size: Count  # ranks of one machine that share a replica; 1: each has its own
    num_processes: Count  # of a rank, with an engine each; 1: the trainer's own
    cpu_kv_cache_gib: Count  # CPU only, of each
    gpu_memory_utilization: PositiveFraction  # CUDA only, of all together
    enforce_eager: bool
    prefix_caching: bool
    sleep_while_training: bool  # CUDA only: give the KV cache's memory to the trainer

    def check(self, key: str, config: Any) -> None:
        require(
            self.num_processes == 1 or self.tensor_parallel_size == 1,
            f"{key}.num_processes must be 1 where several ranks share a replica "
            f"({key}.tensor_parallel_size {self.tensor_parallel_size}), got {self.num_processes}",
        )

    def build(self, model: "EngineModel") -> "Engine":
        if find_spec("vllm") is None:
            raise UserError(
                "config: engine.kind must be 'transformers' where vllm is not installed, got 'vllm'"
            )
        if self.num_processes > 1:
            from vineppo.engine.processes import EngineProcesses

            return EngineProcesses(self, model)
        from vineppo.engine.vllm_engine import VllmEngine

        return VllmEngine(self, model)

    def alone(self) -> Self:
        return replace(self, tensor_parallel_size=1)

    @property
    def ranks_a_replica(self) -> int:
        return self.tensor_parallel_size

    @property
    def cached_block(self) -> int | None:
        return self.block_size if self.prefix_caching else None
