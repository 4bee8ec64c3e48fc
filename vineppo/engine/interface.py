"""The trainer's interface to an engine: token ids in, token ids and log-probabilities out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vineppo.types import FinishReason

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class EngineModel:
    """A model as an engine needs to know it.

    `num_token_ids` is the tokenizer's vocabulary: ids at or above it are padding of the embedding
    matrix and are never sampled. `stop_ids` end a response and are part of it.
    """

    path: str
    num_token_ids: int
    stop_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One sample that continues `prefix_ids` by at most `max_tokens` tokens.

    `temperature` 0 is greedy, whatever else it says. Else `min_p` cuts first, then `top_k`, then
    `top_p`. `stop_ids` end it besides the model's. The same request gives the same sample, whatever
    else runs, up to the floating-point noise of batching.
    """

    prefix_ids: tuple[int, ...]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    with_logprobs: bool
    stop_ids: tuple[int, ...] = ()
    top_k: int | None = None
    min_p: float = 0.0


def check_request(request: SampleRequest, max_model_len: int) -> None:
    length = len(request.prefix_ids)
    if not 0 < length < max_model_len or request.max_tokens < 1:
        raise ValueError(
            f"a prefix must have 1 to {max_model_len - 1} tokens and max_tokens must be positive, "
            f"got {length} and {request.max_tokens}"
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """The sampled ids (with the end-of-sequence id, if it was reached).

    `logprobs_T` are after temperature and cuts; empty if the request did not ask for them. In a
    dialogue `num_observed` of the ids are the environment's, with log-probabilities of 0.
    """

    token_ids: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    finish_reason: FinishReason
    num_observed: int = 0


@dataclass(frozen=True)
class EngineCounts:
    """Tokens since the engine started, of finished requests: fed as prefixes, of those found in
    the prefix cache, and sampled; and how often all running requests had to start over."""

    prompt_tokens: int
    cached_tokens: int
    sampled_tokens: int
    num_retries: int = 0


class Engine(Protocol):
    """A stream: requests may be submitted while others run, also from within a callback."""

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        """Queues a request; `step` calls `done` when it has finished."""

    def step(self) -> None:
        """Advances every running request by a token or some; raises what a callback raises.

        If the engine fails, what runs starts over with less concurrency (`concurrency.py`).
        """

    @property
    def ranks_a_replica(self) -> int:
        """Ranks that sample together: all of them must ask for the same, in the same order."""

    @property
    def num_unfinished(self) -> int: ...

    @property
    def counts(self) -> EngineCounts: ...

    def load_weights(self, named_weights: "Iterable[tuple[str, torch.Tensor]]") -> None:
        """Takes new weights (HF names) in place and forgets every cached prefix."""

    def clear_cache(self) -> None:
        """Forgets every cached prefix, so that what follows does not depend on what was sampled."""

    def sleep(self) -> None:
        """Gives memory to the trainer, if the engine can, and forgets what runs, until `wake`."""

    def wake(self) -> None: ...
