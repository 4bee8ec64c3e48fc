"""Tokens/s of the values phase ÷ tokens/s of one saturated `LLM.generate` call.

Ours: the rollouts of an iteration are there; they are split, the states' continuations submitted,
sampled, decoded and graded. The ceiling: vLLM's own offline call on the same `LLM` object with the
same prefixes as token ids, as many continuations of each in the same order, forced to the very
lengths that ours sampled (no stop ids), without text, grading or log-probabilities. It knows
everything beforehand and keeps nothing, so the ratio is what splitting, bookkeeping, seeds and
grading cost. Seeds of their own make vLLM draw row by row: the ceiling is measured with and without
them, and the faster is the one that counts. Every measurement starts with an empty prefix cache.
"""

from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.watched_engine import RecordingEngine
from benchmarks.workload import Workload, llm_of, open_workload
from vineppo.engine import SampleRequest
from vineppo.rollouts import Draft

NAME = "values_throughput"


@dataclass(frozen=True)
class Recorded:
    """The requests of a values phase in the order of submission, and the tokens each sampled."""

    requests: list[SampleRequest]
    lengths: list[int]


def main() -> None:
    options = parse_options(NAME, "values phase ÷ one LLM.generate call")
    with open_workload(options) as workload:
        drafts = workload.rollouts()
        recorded = record(workload, drafts)
        sampled: list[int] = []

        def ours() -> float:
            before = workload.sampler.engine.counts.sampled_tokens
            seconds, _ = workload.timed(lambda: workload.values(drafts))
            sampled.append(workload.sampler.engine.counts.sampled_tokens - before)
            return sampled[-1] / seconds

        measured = alternate(
            options.num_runs,
            {
                "ours": ours,
                "ceiling": lambda: ceiling(workload, recorded, with_seeds=False),
                "ceiling_seeded": lambda: ceiling(workload, recorded, with_seeds=True),
            },
        )
        ceilings = {name: measured[name] for name in ("ceiling", "ceiling_seeded")}
        fastest = max(ceilings, key=lambda name: median(ceilings[name]))
        report(
            NAME,
            options,
            options.num_runs,
            {
                "ours / ceiling": ratio(measured["ours"], measured[fastest]),
                "ours / ceiling with seeds": ratio(measured["ours"], measured["ceiling_seeded"]),
            },
            {
                "ceiling": fastest,
                **{f"{name}_tokens_per_s": median(rates) for name, rates in measured.items()},
                "sampled_tokens": median(sampled),
                "ceiling_tokens": sum(recorded.lengths),
                "requests": len(recorded.requests),
                "distinct_states": len({request.prefix_ids for request in recorded.requests}),
                "states": sum(len(spans) for spans in workload.spans(drafts)),
                "rollouts": len(drafts),
                "K": workload.credit.num_continuations,
                "measured_tokens_per_s": measured,
            },
        )


def record(workload: Workload, drafts: list[Draft]) -> Recorded:
    """One values phase that is not measured; it also warms the machine up."""
    engine = RecordingEngine(workload.sampler.engine)
    replace(workload, sampler=replace(workload.sampler, engine=engine)).values(drafts)
    return Recorded(engine.requests, engine.lengths)


def ceiling(workload: Workload, recorded: Recorded, with_seeds: bool) -> float:
    """Tokens/s of one call; prompts and parameters are made before the clock starts."""
    from vllm import SamplingParams

    llm = llm_of(workload.sampler.engine)
    prompts = [{"prompt_token_ids": list(request.prefix_ids)} for request in recorded.requests]
    params = [
        SamplingParams(
            temperature=request.temperature,
            top_p=request.top_p,
            max_tokens=length,
            ignore_eos=True,
            seed=request.seed if with_seeds else None,
            detokenize=False,
        )
        for request, length in zip(recorded.requests, recorded.lengths, strict=True)
    ]
    outputs: list[Any]
    seconds, outputs = workload.timed(lambda: llm.generate(prompts, params, use_tqdm=False))
    lengths = [len(output.outputs[0].token_ids) for output in outputs]
    assert lengths == recorded.lengths, "the ceiling must sample what ours did"
    return sum(lengths) / seconds


if __name__ == "__main__":
    run_main(main)
