"""Tokens/s of the analysis `ground-truth` ÷ tokens/s of one saturated `LLM.generate` call.

Ours is `sample_continuations`: 128 step boundaries of an iteration's rollouts, 64 continuations
each, sampled, decoded and graded. The ceiling is `values_throughput`'s: the same prefixes and
lengths in one call of vLLM, without text or grading.
"""

import math
from dataclasses import replace
from statistics import median

from analysis.sampling.continuations import sample_continuations
from analysis.sampling.returns import request_of
from analysis.sampling.rollouts import RolloutState, sample_boundaries
from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.values_throughput import Recorded, ceiling
from benchmarks.watched_engine import RecordingEngine
from benchmarks.workload import ITERATION, Workload, describe_workload, open_workload
from vineppo.rollouts import State

NAME = "ground_truth"
NUM_STATES, NUM_SAMPLES = 128, 64
QUICK_STATES, QUICK_SAMPLES = 8, 32


def main() -> None:
    options = parse_options(NAME, "ground-truth sampling ÷ one LLM.generate call")
    num_states, num_samples = (
        (QUICK_STATES, QUICK_SAMPLES) if options.is_quick else (NUM_STATES, NUM_SAMPLES)
    )
    with open_workload(options) as workload:
        states = boundaries(workload, num_states)
        recorder = RecordingEngine(workload.sampler.engine)
        watched = replace(workload, sampler=replace(workload.sampler, engine=recorder))
        sample(watched, states, num_samples)  # not measured; it also warms the machine up
        recorded = Recorded(recorder.requests, recorder.lengths)
        num_tokens = sum(recorded.lengths)

        def ours() -> float:
            before = workload.sampler.engine.counts.sampled_tokens
            seconds, _ = workload.timed(lambda: sample(workload, states, num_samples))
            return (workload.sampler.engine.counts.sampled_tokens - before) / seconds

        measured = alternate(
            options.num_runs,
            {"ours": ours, "ceiling": lambda: ceiling(workload, recorded)},
        )
        report(
            NAME,
            options,
            options.num_runs,
            {"ours / ceiling": ratio(measured["ours"], measured["ceiling"])},
            {
                **{f"{name}_tokens_per_s": median(rates) for name, rates in measured.items()},
                "states": len(states),
                "continuations of a state": num_samples,
                "tokens": num_tokens,
                "workload": describe_workload(workload.config),
                "measured_tokens_per_s": measured,
            },
        )


def boundaries(workload: Workload, num_states: int) -> list[RolloutState]:
    """Distinct step boundaries of the rollouts of as many prompts as they take."""
    workload = workload.varied(num_prompts=len(workload.train_P))
    return sample_boundaries(workload.rollouts(), num_states, workload.config.seed, ITERATION)


def sample(workload: Workload, states: list[RolloutState], num_samples: int) -> None:
    prompts = {prompt.problem.id: prompt for prompt in workload.train_P}
    requests = (
        request_of(
            State(prompts[state.rollout.problem.id], state.prefix_ids), num_samples, ("truth",), ""
        )
        for state in states
    )
    for _, continuations in sample_continuations(workload.sampler, requests):
        assert all(math.isfinite(continuation.reward.result()) for continuation in continuations)


if __name__ == "__main__":
    run_main(main)
