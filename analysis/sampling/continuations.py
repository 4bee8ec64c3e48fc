"""Continuations of many states: each state's come together, as soon as all of them are graded."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from vineppo.rollouts import LOOKAHEAD, Continuation, Sampler, State, submit_continuations


@dataclass(frozen=True)
class StateRequest:
    """Continuations number `first` to `first + num_samples − 1` of a state.

    Two requests with one state and `stream` get the same ones. `tag` is the caller's.
    """

    state: State
    num_samples: int
    stream: tuple[int | str, ...]
    first: int = 0
    tag: Any = None


def sample_continuations(
    sampler: Sampler,
    requests: Iterable[StateRequest],
    tick: Callable[[], None] = lambda: None,
    with_logprobs: bool = False,
) -> Iterator[tuple[StateRequest, list[Continuation]]]:
    """Every state with its continuations, as soon as the last of them is sampled and graded.

    All continuations of a state are submitted next to each other, so that its prefix is computed
    once. The engine waits neither for the slowest of a batch nor for a grader. `tick` is called
    after every step of the engine.
    """
    queue = iter(requests)
    sampled: deque[tuple[StateRequest, list[Continuation]]] = deque()

    def submit(request: StateRequest) -> None:
        finished: list[Continuation] = []

        def add(continuation: Continuation) -> None:
            finished.append(continuation)
            if len(finished) == request.num_samples:
                sampled.append((request, sorted(finished, key=lambda one: one.index)))

        numbers = range(request.first, request.first + request.num_samples)
        submit_continuations(sampler, request.state, numbers, request.stream, add, with_logprobs)

    while True:
        while sampler.engine.num_unfinished < LOOKAHEAD:
            request = next(queue, None)
            if request is None:
                break
            submit(request)
        is_idle = not sampler.engine.num_unfinished
        while sampled and (is_idle or all(one.reward.done() for one in sampled[0][1])):
            yield sampled.popleft()
        if is_idle and not sampler.engine.num_unfinished:
            return
        sampler.engine.step()
        tick()
