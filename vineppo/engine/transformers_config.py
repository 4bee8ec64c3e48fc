"""The keys of the transformers engine."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vineppo.config.schema.engine import EngineConfig

if TYPE_CHECKING:
    from vineppo.engine import Engine, EngineModel


@dataclass(frozen=True)
class TransformersConfig(EngineConfig):
    """transformers in this process, which reads a prefix once for the rows that share it.

    Each of `max_num_seqs` sequences takes memory for at most 2 · `max_model_len` tokens;
    `max_num_batched_tokens` bounds a pass over prefixes, padding included.
    """

    def build(self, model: "EngineModel") -> "Engine":
        from vineppo.engine.transformers_engine import TransformersEngine

        return TransformersEngine(self, model)

    @property
    def cached_block(self) -> int:
        return 1
