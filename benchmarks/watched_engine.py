"""Engines that pass everything on to another and write down what went through."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from vineppo.engine import Completion, Engine, EngineCounts, SampleRequest


class PassingEngine:
    """`Engine` by way of another."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        self._engine.submit(request, done)

    def step(self) -> None:
        self._engine.step()

    @property
    def ranks_a_replica(self) -> int:
        return self._engine.ranks_a_replica

    @property
    def num_unfinished(self) -> int:
        return self._engine.num_unfinished

    @property
    def counts(self) -> EngineCounts:
        return self._engine.counts

    def load_weights(self, named_weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self._engine.load_weights(named_weights)

    def clear_cache(self) -> None:
        self._engine.clear_cache()

    def sleep(self) -> None:
        self._engine.sleep()

    def wake(self) -> None:
        self._engine.wake()


class RecordingEngine(PassingEngine):
    """Keeps every request and how many tokens it sampled, in the order of submission."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.requests: list[SampleRequest] = []
        self.lengths: list[int] = []

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        slot = len(self.requests)
        self.requests.append(request)
        self.lengths.append(0)

        def finish(completion: Completion) -> None:
            self.lengths[slot] = len(completion.token_ids)
            done(completion)

        self._engine.submit(request, finish)


@dataclass(frozen=True, slots=True)
class EngineStep:
    """When a step began and ended.

    `sampling_s` is without the callbacks of finished requests, which come last: splitting, grading,
    submitting.
    """

    start_s: float
    end_s: float
    sampling_s: float


class TimedEngine(PassingEngine):
    """Keeps when it stepped."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.steps: list[EngineStep] = []
        self._callbacks_s = 0.0

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        def finish(completion: Completion) -> None:
            started = time.perf_counter()
            done(completion)
            self._callbacks_s += time.perf_counter() - started

        self._engine.submit(request, finish)

    def step(self) -> None:
        self._callbacks_s = 0.0
        start_s = time.perf_counter()
        self._engine.step()
        end_s = time.perf_counter()
        sampling_s = end_s - start_s - self._callbacks_s
        self.steps.append(EngineStep(start_s, end_s, sampling_s))
