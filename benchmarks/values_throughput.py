"""Tokens/s of the values phase ÷ tokens/s of one saturated `LLM.generate` call.

Ours: the rollouts of an iteration are there; they are split, the states' continuations submitted,
sampled, decoded and graded. The ceiling: vLLM's own offline call on the same `LLM` object with the
same prefixes as token ids, without text, seeds, grading or log-probabilities. It knows everything
beforehand and keeps nothing, so the ratio is what splitting, bookkeeping, seeds and grading cost.
It is called in two ways, and in every round the faster counts. `ceiling` makes one request a
continuation in our order, forced to the very lengths that ours sampled. `ceiling_n` makes one a
state with n = K and the policy's own ends, so other draws set the number of tokens. `ours_shared`
is ours by the transformers engine, whose tokens of a seed are others. Every measurement starts
with an empty prefix cache.
"""

import sys
from collections import Counter
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.watched_engine import RecordingEngine
from benchmarks.workload import (
    Workload,
    describe_workload,
    llm_of,
    open_workload,
    with_shared_prefixes,
)
from vineppo.engine import SampleRequest
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.types import Rollout

NAME = "values_throughput"
REAL_K = 6  # of a real model, so that a small CPU run fills the places several times as well


@dataclass(frozen=True)
class Recorded:
    """The requests of a values phase in the order of submission, and the tokens each sampled."""

    requests: list[SampleRequest]
    lengths: list[int]


def main() -> None:
    options = parse_options(NAME, "values phase ÷ one LLM.generate call")
    with open_workload(options) as opened:
        K = None if options.model is None or options.is_quick else REAL_K
        workload = opened.varied(num_continuations=K)
        rollouts = workload.rollouts()
        recorded = record(workload, rollouts)
        shared = by_shared_prefixes(workload)
        if shared is not None:
            record(shared, rollouts)
        sampled: list[int] = []

        def ours(workload: Workload) -> float:
            before = workload.sampler.engine.counts.sampled_tokens
            seconds, _ = workload.timed(lambda: workload.values(rollouts))
            num_tokens = workload.sampler.engine.counts.sampled_tokens - before
            if workload is not shared:
                sampled.append(num_tokens)
            return num_tokens / seconds

        runs = {
            "ours": lambda: ours(workload),
            "ceiling": lambda: ceiling(workload, recorded),
            "ceiling_n": lambda: ceiling_n(workload, recorded),
        }
        if shared is not None:
            runs["ours_shared"] = lambda: ours(shared)
        measured = alternate(options.num_runs, runs)
        ceilings = ("ceiling", "ceiling_n")
        fastest = [max(rates) for rates in zip(*(measured[n] for n in ceilings), strict=True)]
        ratios = {"ours / ceiling": ratio(measured["ours"], fastest)}
        if shared is not None:
            ratios["ours, prefixes read once / ceiling"] = ratio(measured["ours_shared"], fastest)
        report(
            NAME,
            options,
            options.num_runs,
            ratios,
            {
                **{f"{name}_tokens_per_s": median(rates) for name, rates in measured.items()},
                "sampled_tokens": median(sampled),
                "sampled_tokens_by_run": sampled,
                "ceiling_tokens": sum(recorded.lengths),
                "requests": len(recorded.requests),
                "distinct_states": len({request.prefix_ids for request in recorded.requests}),
                "states": sum(len(rollout.spans_S) for rollout in rollouts),
                "rollouts": len(rollouts),
                "workload": describe_workload(workload.config),
                "measured_tokens_per_s": measured,
            },
        )


def by_shared_prefixes(workload: Workload) -> Workload | None:
    """The same policy in another engine; None where that one cannot sample it."""
    config = with_shared_prefixes(workload.config)
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    try:
        engine = config.engine.build(loaded.engine_model)
    except UserError as error:
        print(f"without the transformers engine: {error}", file=sys.stderr)
        return None
    return replace(workload, sampler=replace(workload.sampler, engine=engine))


def record(workload: Workload, rollouts: list[Rollout]) -> Recorded:
    """One values phase that is not measured; it also warms the machine up."""
    engine = RecordingEngine(workload.sampler.engine)
    watched = replace(workload, sampler=replace(workload.sampler, engine=engine))
    watched.timed(lambda: watched.values(rollouts))  # with the empty cache of those that count
    return Recorded(engine.requests, engine.lengths)


def ceiling(workload: Workload, recorded: Recorded) -> float:
    """Tokens/s of one call with a request a continuation, each of the length that ours had."""
    prompts = [list(request.prefix_ids) for request in recorded.requests]
    params = [
        {"max_tokens": length, "ignore_eos": True, **_draw(request)}
        for request, length in zip(recorded.requests, recorded.lengths, strict=True)
    ]
    tokens, rate = _generate(workload, prompts, params)
    assert tokens == sum(recorded.lengths), "the ceiling must sample what ours did"
    return rate


def ceiling_n(workload: Workload, recorded: Recorded) -> float:
    """Tokens/s of one call with a request a state, which vLLM itself multiplies by K."""
    num_samples = Counter(request.prefix_ids for request in recorded.requests)
    by_state = {request.prefix_ids: request for request in recorded.requests}
    params = [
        {
            "n": num_samples[prefix_ids],
            "max_tokens": request.max_tokens,
            "stop_token_ids": list(workload.stop_ids),
            **_draw(request),
        }
        for prefix_ids, request in by_state.items()
    ]
    return _generate(workload, [list(prefix_ids) for prefix_ids in by_state], params)[1]


def _draw(request: SampleRequest) -> dict[str, Any]:
    return {"temperature": request.temperature, "top_p": request.top_p, "detokenize": False}


def _generate(
    workload: Workload, prompts: list[list[int]], params: list[dict[str, Any]]
) -> tuple[int, float]:
    """Tokens and tokens/s; everything is made before the clock starts."""
    from vllm import SamplingParams

    llm = llm_of(workload.sampler.engine)
    inputs = [{"prompt_token_ids": token_ids} for token_ids in prompts]
    sampling = [SamplingParams(**arguments) for arguments in params]
    outputs: list[Any]
    seconds, outputs = workload.timed(lambda: llm.generate(inputs, sampling, use_tqdm=False))
    tokens = sum(len(sample.token_ids) for output in outputs for sample in output.outputs)
    return tokens, tokens / seconds


if __name__ == "__main__":
    run_main(main)
