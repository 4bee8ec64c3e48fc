"""vLLM for a model that is too large for one GPU: several ranks of a machine share a replica.

Tensor parallelism: the ranks of a replica exchange activations in every layer, so they sample the
same requests in the same steps.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from pydantic import Field

from vineppo.distributed import num_local_ranks
from vineppo.engine import Engine, EngineModel
from vineppo.engine.vllm_config import VllmConfig
from vineppo.errors import UserError


@dataclass(frozen=True)
class ShardedConfig(VllmConfig):
    """vLLM's keys, and how many ranks share a replica."""

    tensor_parallel_size: Annotated[int, Field(ge=2)] = 2

    def build(self, model: EngineModel) -> Engine:
        """Raises `UserError` where vLLM would end with a traceback, or hang."""
        size, num_local = self.tensor_parallel_size, num_local_ranks()
        if size == 1:
            return super().build(model)
        from transformers import AutoConfig

        if num_local % size:
            raise UserError(
                f"config: engine.tensor_parallel_size must divide the number of ranks of a "
                f"machine, {num_local} (torchrun --nproc_per_node), got {size}"
            )
        text = AutoConfig.from_pretrained(model.path).get_text_config()
        heads = text.num_attention_heads
        kv_heads = getattr(text, "num_key_value_heads", None) or heads
        if heads % size or max(kv_heads, size) % min(kv_heads, size):
            raise UserError(
                f"config: engine.tensor_parallel_size must divide the model's {heads} attention "
                f"heads, and divide its {kv_heads} key-value heads or be a multiple of them, got "
                f"{size}"
            )
        return super().build(model)

    def alone(self) -> Self:
        return replace(self, tensor_parallel_size=1)

    @property
    def ranks_a_replica(self) -> int:
        return self.tensor_parallel_size

    def options(self, on_gpu: bool) -> dict[str, Any]:
        if self.tensor_parallel_size == 1:
            return super().options(on_gpu)
        worker = "auto" if on_gpu else "vineppo.recipes.vllm_sharded_worker.SharingCpuWorker"
        return {
            "tensor_parallel_size": self.tensor_parallel_size,
            "distributed_executor_backend": "external_launcher",
            "worker_cls": worker,
        }
