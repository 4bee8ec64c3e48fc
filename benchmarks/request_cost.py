"""What a request and a step of it cost without a model: Python alone, all around the passes.

The values of an iteration are sampled once; then again and again, with the recorded tokens instead
of the model's passes. `python -m benchmarks.request_cost` measures the rest: the requests'
parameters, the scheduler, the collecting of tokens, decoding and grading. On a GPU this runs in the
one thread that must keep it busy.
"""

import time
from concurrent.futures import Future
from dataclasses import replace
from statistics import median
from typing import Any

from vllm.v1.outputs import ModelRunnerOutput

from benchmarks.harness import Options, parse_options, report, run_main, spread
from benchmarks.watched_engine import PassingEngine
from benchmarks.workload import Workload, describe_workload, llm_of, open_workload
from vineppo.engine import Completion, SampleRequest
from vineppo.types import Rollout

OF_WORK = ("requests", "steps a request", "requests a step")


class _Recording(PassingEngine):
    """Keeps the tokens of every request, and when the engine was in its callbacks."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.token_ids: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        self.callbacks_s = self.adding_s = 0.0
        self._start, engine._start = engine._start, self._timed_start

    def submit(self, request: SampleRequest, done: Any) -> None:
        def finish(completion: Completion) -> None:
            self.token_ids[request.prefix_ids, request.seed] = completion.token_ids
            started = time.perf_counter()
            done(completion)
            self.callbacks_s += time.perf_counter() - started

        self._engine.submit(request, finish)

    def _timed_start(self, *request: Any) -> None:
        started = time.perf_counter()
        self._start(*request)
        self.adding_s += time.perf_counter() - started


class _Replay:
    """In place of vLLM's executor of the model: the recorded tokens, one in every step."""

    def __init__(self, recording: _Recording) -> None:
        self._recorded = recording.token_ids
        self._left: dict[str, list[int]] = {}
        self._unread: dict[str, int] = {}  # tokens of the prompt
        self._scheduled: dict[str, int] = {}
        self.seconds = 0.0
        self.num_request_steps = self.num_steps = 0

    def execute_model(self, scheduled: Any, non_block: bool = False) -> Any:
        started = time.perf_counter()
        for new in scheduled.scheduled_new_reqs:
            key = tuple(new.prompt_token_ids), new.sampling_params.seed
            self._left[new.req_id] = list(reversed(self._recorded[key]))
            self._unread[new.req_id] = len(new.prompt_token_ids) - new.num_computed_tokens
        for finished in scheduled.finished_req_ids:
            self._left.pop(finished, None)
        self._scheduled = scheduled.num_scheduled_tokens
        self.num_steps += 1
        self.num_request_steps += len(self._scheduled)
        self.seconds += time.perf_counter() - started
        return _given(None, non_block)

    def sample_tokens(self, _: Any, non_block: bool = False) -> Any:
        started = time.perf_counter()
        request_ids = list(self._scheduled)
        sampled = []
        for request_id, count in self._scheduled.items():
            self._unread[request_id] -= count
            has_read = self._unread[request_id] <= 0
            left = self._left[request_id]  # on a GPU a request has a step after its last
            sampled.append([left.pop() if left else 0] if has_read else [])
        indices = {request_id: index for index, request_id in enumerate(request_ids)}
        output = ModelRunnerOutput(request_ids, indices, sampled)
        self.seconds += time.perf_counter() - started
        return _given(output, non_block)


def _given(result: Any, as_future: bool) -> Any:
    if not as_future:
        return result
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def _measure(
    workload: Workload, rollouts: list[Rollout], recording: _Recording
) -> dict[str, float]:
    """Microseconds of the values of finished rollouts."""
    replay = _Replay(recording)
    executor = llm_of(recording._engine).llm_engine.engine_core.engine_core.model_executor
    real = executor.execute_model, executor.sample_tokens
    executor.execute_model, executor.sample_tokens = replay.execute_model, replay.sample_tokens
    recording.adding_s = recording.callbacks_s = 0.0
    try:
        seconds, _ = workload.timed(lambda: workload.values(rollouts))
    finally:
        executor.execute_model, executor.sample_tokens = real
    seconds -= replay.seconds
    stepping_s = seconds - recording.adding_s - recording.callbacks_s
    num_requests = len(replay._recorded)
    return {
        "all, a request and step": 1e6 * seconds / replay.num_request_steps,
        "steps, a request and step": 1e6 * stepping_s / replay.num_request_steps,
        "adding, a request": 1e6 * recording.adding_s / num_requests,
        "decoding and grading, a request": 1e6 * recording.callbacks_s / num_requests,
        "requests": num_requests,
        "steps a request": replay.num_request_steps / num_requests,
        "requests a step": replay.num_request_steps / replay.num_steps,
    }


def main() -> None:
    options = parse_options("request_cost", __doc__ or "")
    with open_workload(options) as workload:
        rollouts = workload.rollouts()
        recording = _Recording(workload.sampler.engine)
        workload = replace(workload, sampler=replace(workload.sampler, engine=recording))
        workload.values(rollouts)
        _measure(workload, rollouts, recording)
        runs = [_measure(workload, rollouts, recording) for _ in range(options.num_runs)]
    _report(options, workload, runs)


def _report(options: Options, workload: Workload, runs: list[dict[str, float]]) -> None:
    measured = {name: [run[name] for run in runs] for name in runs[0]}
    of_work = {name: median(measured.pop(name)) for name in OF_WORK}
    report(
        "request_cost",
        options,
        len(runs),
        {f"µs: {name}": spread(values) for name, values in measured.items()},
        {"workload": describe_workload(workload.config), **of_work, "measured_us": measured},
    )


if __name__ == "__main__":
    run_main(main)
