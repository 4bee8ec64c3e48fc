"""Microseconds of a request, and of each further token of it, without a model.

The step boundaries of the demo's rollouts, K continuations each, of a model that is not asked: its
logits are zeros, so that all tokens are as likely. What is left is seeds, vLLM's requests, its
scheduler and sampler, text and grading. Continuations of one token tell what a request costs, those
of up to 17 what a token more adds. "Checked anew": with parameters that are made for every request,
as before they were copied from checked ones.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import torch

from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.workload import Workload, describe_workload, llm_of, open_workload, run_to_end
from vineppo.engine import SampleRequest
from vineppo.engine.vllm_engine import VllmEngine
from vineppo.rollouts import Prompt, State, StateRequest, submit_continuations

NAME = "request_cost"
ONE, MORE = 1, 17  # tokens


def main() -> None:
    options = parse_options(NAME, "microseconds of a request without a model")
    with open_workload(options) as workload:
        states = [
            State(Prompt(rollout.problem, rollout.prompt_ids), rollout.prefix_ids(step))
            for rollout in workload.rollouts()
            for step in range(len(rollout.spans_S))
        ]
        number = workload.credit.num_continuations
        with without_model(workload):
            sample(workload, states, number, ONE)  # not measured; it also warms the machine up

            def of_request() -> float:
                seconds, _ = sample(workload, states, number, ONE)
                return 1e6 * seconds / (len(states) * number)

            def anew() -> float:
                with checked_anew(workload):
                    return of_request()

            def of_token() -> float:
                one, num_one = sample(workload, states, number, ONE)
                more, num_more = sample(workload, states, number, MORE)
                return 1e6 * (more - one) / (num_more - num_one)

            measured = alternate(
                options.num_runs, {"request": of_request, "anew": anew, "token": of_token}
            )
        report(
            NAME,
            options,
            options.num_runs,
            {"a request / checked anew": ratio(measured["request"], measured["anew"])},
            {
                "microseconds a request": median(measured["request"]),
                "microseconds a request, checked anew": median(measured["anew"]),
                "microseconds a token more": median(measured["token"]),
                "requests": len(states) * number,
                "workload": describe_workload(workload.config),
                "measured_microseconds": measured,
            },
        )


def sample(
    workload: Workload, states: list[State], number: int, num_tokens: int
) -> tuple[float, int]:
    """Seconds and sampled tokens of so many continuations of every state, graded."""
    sampler = workload.sampler
    before = sampler.engine.counts.sampled_tokens
    graded = []

    def work() -> None:
        for index, state in enumerate(states):
            budget = len(state.prefix_ids) + num_tokens
            of_state = replace(sampler, sampling=replace(sampler.sampling, max_tokens=budget))
            asked = StateRequest(state, number, ("request_cost", index))
            submit_continuations(of_state, asked, lambda one: graded.append(one.reward))
        run_to_end(sampler.engine)
        for reward in graded:
            reward.result()

    seconds, _ = workload.timed(work)
    return seconds, sampler.engine.counts.sampled_tokens - before


@contextmanager
def without_model(workload: Workload) -> Iterator[None]:
    """The engine's model gives zeros."""
    worker = llm_of(workload.sampler.engine).llm_engine.model_executor.driver_worker.worker
    model, width = worker.model_runner.model, workload.width
    forward, compute_logits = model.forward, model.compute_logits
    logits_V = torch.zeros(0)

    def no_forward(input_ids: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return torch.zeros(len(input_ids), width)

    def zeros(hidden: torch.Tensor) -> torch.Tensor:
        nonlocal logits_V
        if not len(logits_V):
            logits_V = torch.zeros_like(compute_logits(hidden[:1])[0])
        return logits_V.expand(len(hidden), -1).clone()

    model.forward, model.compute_logits = no_forward, zeros
    try:
        yield
    finally:
        del model.forward, model.compute_logits
        assert model.forward == forward


@contextmanager
def checked_anew(workload: Workload) -> Iterator[None]:
    engine = workload.sampler.engine
    assert isinstance(engine, VllmEngine)
    copied = engine._params

    def made(request: SampleRequest) -> Any:
        engine._templates.clear()
        return copied(request)

    engine._params = made  # type: ignore[method-assign]
    try:
        yield
    finally:
        del engine._params


if __name__ == "__main__":
    run_main(main)
