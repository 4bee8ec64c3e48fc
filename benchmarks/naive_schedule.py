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
- `published`: requests of equal text are one, as in that code, without a prefix cache, as its
  configs for the 1.1 B model have it. The samples of a request, and no two requests, share full
  blocks of their prefix, as the vLLM of that code forked them;
- `published_cached`: with the prefix cache, as one of its configs for the 7 B model has it.

These depart from the published code where it is in their favour or changes little. There is no
HTTP, disk or server start. The rollouts of a problem are requests of one sample each. Samples of
the values phase have no seeds, which vLLM draws faster. Prompts and budgets are ours: a fresh
budget for late states would be more work. The rollouts have our seeds, so all are about the same
responses. An iteration has half the prompts of the workload, for time.
"""

from functools import partial
from statistics import median

from benchmarks.barrier import Schedule, iteration
from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.workload import describe_workload, open_workload

NAME = "naive_schedule"
SCHEDULES = {
    "naive": Schedule(is_deduplicated=False, has_cache=False, is_forked=False),
    "published": Schedule(is_deduplicated=True, has_cache=False, is_forked=True),
    "published_cached": Schedule(is_deduplicated=True, has_cache=True, is_forked=False),
}


def main() -> None:
    options = parse_options(NAME, "schedules with a barrier ÷ ours")
    with open_workload(options) as opened:
        workload = opened.varied(num_prompts=max(1, opened.config.rollouts.num_prompts // 2))
        workload.timed(workload.experience)  # warms the machine up
        tokens: dict[str, list[int]] = {name: [] for name in (*SCHEDULES, "ours")}

        def barrier(name: str) -> float:
            seconds, sampled = workload.timed(lambda: iteration(workload, SCHEDULES[name]))
            tokens[name].append(sampled)
            return seconds

        def ours() -> float:
            before = workload.sampler.engine.counts.sampled_tokens
            seconds, _ = workload.timed(workload.experience)
            tokens["ours"].append(workload.sampler.engine.counts.sampled_tokens - before)
            return seconds

        alternatives = {name: partial(barrier, name) for name in SCHEDULES} | {"ours": ours}
        measured = alternate(options.num_runs, alternatives)
        report(
            NAME,
            options,
            options.num_runs,
            {f"{name} / ours": ratio(measured[name], measured["ours"]) for name in SCHEDULES},
            {
                **{f"{name}_s": median(seconds) for name, seconds in measured.items()},
                **{f"{name}_sampled_tokens": median(counts) for name, counts in tokens.items()},
                "workload": describe_workload(workload.config),
                "measured_s": measured,
            },
        )


if __name__ == "__main__":
    run_main(main)
