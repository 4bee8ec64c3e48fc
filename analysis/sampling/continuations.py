"""Fresh continuations of states, streamed through one engine.

States are submitted as the engine takes them, all continuations of one next to each other so that
its prefix is computed once; nothing waits for the slowest of a batch. What a state's continuations
are depends on the state, the policy and the seed alone, not on what else is sampled with it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from vineppo.engine import Completion
from vineppo.errors import UserError
from vineppo.rollouts import Prompt, Sampler
from vineppo.seeds import derive_seed, prefix_digest

LOOKAHEAD = 4096  # requests that wait in the engine's queue, at least, while there are more


@dataclass(frozen=True)
class StateRequest:
    """`num_samples` continuations of a prompt and the first tokens of a response.

    `stream` names their random numbers: two requests with one stream, prompt and prefix get the
    same ones. `tag` is the caller's.
    """

    prompt: Prompt
    prefix_ids: tuple[int, ...]
    num_samples: int
    stream: tuple[int | str, ...]
    tag: Any = None


@dataclass(frozen=True)
class Returns:
    """The returns of a state's continuations in the order of their seeds, each 0 or 1."""

    returns_K: tuple[int, ...]
    num_tokens: int
    num_truncated: int


@dataclass
class _Pending:
    request: StateRequest
    rewards_K: list[Future[float] | None]
    num_missing: int
    num_tokens: int = 0
    num_truncated: int = 0

    @property
    def is_graded(self) -> bool:
        return all(reward is not None and reward.done() for reward in self.rewards_K)


def sample_returns(
    sampler: Sampler,
    requests: Iterable[StateRequest],
    done: Callable[[StateRequest, Returns], None],
    tick: Callable[[], None],
) -> None:
    """Calls `done` for each state when the last of its continuations is sampled and graded.

    `tick` is called after every step of the engine. Raises `UserError` for a return that is neither
    0 nor 1: the statistics count successes.
    """
    queue: Iterator[StateRequest] = iter(requests)
    sampled: deque[_Pending] = deque()
    while True:
        while sampler.engine.num_unfinished < LOOKAHEAD:
            request = next(queue, None)
            if request is None:
                break
            _submit(sampler, request, sampled.append)
        is_idle = not sampler.engine.num_unfinished
        # A grader that thinks keeps the engine from nothing.
        while sampled and (is_idle or sampled[0].is_graded):
            pending = sampled.popleft()
            done(pending.request, _settle(pending))
        if is_idle:
            return
        sampler.engine.step()
        tick()


def _submit(sampler: Sampler, request: StateRequest, finished: Callable[[_Pending], None]) -> None:
    prefix, prompt = request.prefix_ids, request.prompt
    pending = _Pending(request, [None] * request.num_samples, request.num_samples)
    state_ids = (*prompt.token_ids, *prefix)  # one tuple for all requests
    digest = prefix_digest(prefix)
    for k in range(request.num_samples):

        def finish(completion: Completion, k: int = k) -> None:
            whole = (*prefix, *completion.token_ids)
            reward = sampler.reward(prompt.problem, whole, completion.finish_reason)
            pending.rewards_K[k] = reward
            pending.num_tokens += len(completion.token_ids)
            pending.num_truncated += completion.finish_reason == "length"
            pending.num_missing -= 1
            if not pending.num_missing:
                finished(pending)

        sampler.submit(
            state_ids,
            sampler.sampling.max_tokens - len(prefix),
            derive_seed(sampler.seed, *request.stream, prompt.problem.id, digest, k),
            False,
            finish,
        )


def _settle(pending: _Pending) -> Returns:
    returns_K = [reward.result() for reward in pending.rewards_K if reward is not None]
    for number in returns_K:
        if number not in (0.0, 1.0):
            raise UserError(
                f"problem {pending.request.prompt.problem.id}: a return must be 0 or 1 to be "
                f"counted, got {number:g}"
            )
    counts = tuple(int(number) for number in returns_K)
    return Returns(counts, pending.num_tokens, pending.num_truncated)
