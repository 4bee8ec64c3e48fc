"""Engines sample token ids from the policy; this package alone imports vllm.

Here is the trainer's interface to them: token ids in, token ids and log-probabilities out.
"""

import logging
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vineppo.config.schema.engine import EngineConfig as EngineConfig
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

        If the engine fails, what runs starts over with less concurrency (`Concurrency`).
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


MOST_FAILURES = 5  # of 256 requests at once, 8 are left
WAVES = 16  # of requests, in the time in which all places are taken anew

logger = logging.getLogger(__name__)


class Concurrency:
    """At most `limit` requests run at once: `most`, and half as many after every failure.

    An engine that fails (out of memory, say) has lost no finished response. The requests that ran
    start over: each has its own seed, so their samples are the same. `restore` forgets failures.
    """

    def __init__(self, most: int, max_model_len: int) -> None:
        self._most = self.limit = most
        self._num_failures = 0  # since `restore`
        self._num_idle_steps = 0
        # The oldest request gets a token in every step but those of its prompt and of others'.
        self._most_idle_steps = 4 * max_model_len + 64

    def admits(self, num_running: int, in_waves: bool) -> int:
        """How many more requests an engine gets.

        In waves none waits in the engine, and none starts before a sixteenth can: a step is slower
        if requests start in it. With 31 of 32 places taken none starts, with 30 taken 2 do.
        Otherwise as many wait as run, except after a failure: with 31 of 32 places taken 33 come.
        """
        if in_waves:
            free = self.limit - num_running
            return free if free >= max(1, self.limit // WAVES) else 0
        most = 2 * self.limit if self.limit == self._most else self.limit
        return max(most - num_running, 0)

    def notice(self, num_finished: int) -> None:
        """Raises `RuntimeError` if no request has finished in more steps than one can take."""
        self._num_idle_steps = 0 if num_finished else self._num_idle_steps + 1
        if self._num_idle_steps > self._most_idle_steps:
            raise RuntimeError(f"no request has finished in {self._num_idle_steps} steps")

    def lower(self, error: Exception, num_running: int) -> None:
        """Halves the limit, says so in train.log, and frees cached memory.

        Raises `error` itself at the sixth failure, and if a single request fails alone.
        """
        self._num_failures, self._num_idle_steps = self._num_failures + 1, 0
        if self._num_failures > MOST_FAILURES or num_running <= 1 == self.limit:
            raise error
        self.limit = max(1, min(self.limit, num_running) // 2)
        reason = (str(error).strip().splitlines() or [""])[0]
        logger.warning(
            f"the engine failed ({type(error).__name__}: {reason}): {num_running} requests start "
            f"over, at most {self.limit} at once"
        )
        import torch

        traceback.clear_frames(error.__traceback__)  # they hold the tensors of the step
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def restore(self) -> None:
        self.limit, self._num_failures, self._num_idle_steps = self._most, 0, 0
