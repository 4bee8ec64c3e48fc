"""Seconds of schedules with a barrier ÷ seconds of ours, for an iteration's rollouts and values.

All run on the same engine, and have in common with the published VinePPO code (McGill-NLP/VinePPO):

- a barrier: all rollouts first, then all values, grading at the end;
- requests in shuffled order;
- prefixes are text that is tokenised again, one by one, and responses are made text.

They differ in what is computed twice:

- `naive`: one request for every state of every rollout, K samples each, so that equal prefixes are
  sampled again. No request reads the prefix cache (`skip_reading_prefix_cache`), which vLLM's own
  report must confirm. So each of a request's samples feeds its prefix, as vLLM's present core does
  with n = K;
- `naive_forked`: the same, where the samples of a request, and no two requests, share full blocks
  of their prefix, as the vLLM of the published code forked them;
- `published`: requests of equal text are one, as in that code, forked, without a prefix cache, as
  its configs for the 1.1 B model have it;
- `published_cached`: with the prefix cache, as one of its configs for the 7 B model has it.

These depart from the published code where it is in their favour or changes little. There is no
HTTP, disk or server start. The rollouts of a problem are requests of one sample each. Samples of
the values phase have no seeds, which vLLM draws faster. Prompts and budgets are ours: a fresh
budget for late states would be more work. The rollouts have our seeds, so all are about the same
responses. The values phase of ours alone, which in a run overlaps the rollouts, is measured on
finished ones.
"""

from functools import partial
from statistics import median

from benchmarks.barrier import Schedule, Work, iteration
from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.workload import describe_workload, open_workload

NAME = "naive_schedule"
SCHEDULES = {
    "naive": Schedule(is_deduplicated=False, has_cache=False, is_forked=False),
    "naive_forked": Schedule(is_deduplicated=False, has_cache=False, is_forked=True),
    "published": Schedule(is_deduplicated=True, has_cache=False, is_forked=True),
    "published_cached": Schedule(is_deduplicated=True, has_cache=True, is_forked=False),
}


def main() -> None:
    options = parse_options(NAME, "schedules with a barrier ÷ ours")
    with open_workload(options) as workload:
        rollouts = workload.rollouts()
        workload.timed(workload.experience)  # warms the machine up
        runs: dict[str, list[Work]] = {name: [] for name in (*SCHEDULES, "ours")}

        def barrier(name: str) -> float:
            seconds, work = workload.timed(lambda: iteration(workload, SCHEDULES[name]))
            runs[name].append(work)
            return seconds

        def ours() -> float:
            before = workload.sampler.engine.counts
            seconds, experience = workload.timed(workload.experience)
            after = workload.sampler.engine.counts
            sampled = after.sampled_tokens - before.sampled_tokens
            cached = after.cached_tokens - before.cached_tokens
            fed = after.prompt_tokens - before.prompt_tokens - cached
            count = len(experience.rollouts) + experience.num_continuations
            runs["ours"].append(Work(sampled, fed, count, 0.0))
            return seconds

        measured = alternate(
            options.num_runs,
            {
                **{name: partial(barrier, name) for name in SCHEDULES},
                "ours": ours,
                "ours_values": lambda: workload.timed(lambda: workload.values(rollouts))[0],
            },
        )
        values_s = {name: [work.values_s for work in runs[name]] for name in SCHEDULES}
        states = {
            (rollout.problem.id, rollout.prefix_ids(step))
            for rollout in rollouts
            for step in range(len(rollout.spans_S))
        }
        report(
            NAME,
            options,
            options.num_runs,
            {
                **{f"{name} / ours": ratio(measured[name], measured["ours"]) for name in SCHEDULES},
                **{
                    f"{name} / ours, values": ratio(values_s[name], measured["ours_values"])
                    for name in SCHEDULES
                },
            },
            {
                **{f"{name}_s": median(seconds) for name, seconds in measured.items()},
                **{f"{name}_values_s": median(seconds) for name, seconds in values_s.items()},
                **{key: x for name in runs for key, x in figures(name, runs[name]).items()},
                "rollouts": len(rollouts),
                "states": sum(len(rollout.spans_S) for rollout in rollouts),
                "distinct_states": len(states),
                "workload": describe_workload(workload.config),
                "measured_s": {**measured, **{f"{n}_values": s for n, s in values_s.items()}},
            },
        )


def figures(name: str, runs: list[Work]) -> dict[str, float]:
    keys = ("sampled_tokens", "fed_tokens", "requests")
    counts = {key: [getattr(work, key) for work in runs] for key in keys}
    return {f"{name}_{key}": median(xs) for key, xs in counts.items() if None not in xs}


if __name__ == "__main__":
    run_main(main)
