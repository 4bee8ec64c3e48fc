"""The keys that every engine has."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vineppo.config.schema.scalars import Count, Dtype
from vineppo.plugins import PluginConfig

if TYPE_CHECKING:
    from vineppo.engine import Engine, EngineModel


@dataclass(frozen=True)
class EngineConfig(PluginConfig):
    """An engine by its keys; only `build` imports its library, as configs are read without it."""

    dtype: Dtype
    max_model_len: Count
    max_num_seqs: Count = 256  # sequences that run at once
    max_num_batched_tokens: Count = 8192  # tokens of one engine step

    def build(self, model: "EngineModel") -> "Engine":
        """The engine with the weights of `model.path`."""
        raise NotImplementedError

    def alone(self) -> Self:
        """The config of a command that runs in one process, with its own replica."""
        return self

    @property
    def ranks_a_replica(self) -> int:
        return 1
