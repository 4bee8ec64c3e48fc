"""Seconds of a naive schedule ÷ seconds of ours, for the rollouts and values of an iteration.

Naive has the published VinePPO code's barrier, order and text, on the same engine, and computes
more: that code makes requests of equal text one, and one of its configs has the prefix cache on.

- a barrier: all rollouts first, then all values, grading at the end;
- one request for every state of every rollout, K samples each: equal prefixes are sampled again;
- requests in shuffled order, and no prefix cache (`skip_reading_prefix_cache`: no request reads it;
  asserted on what vLLM says it has found there);
- prefixes are text that is tokenised again, one by one, and responses are made text.

Where else it departs from the published code it is in its own favour or changes no speed: no HTTP,
disk or server start; samples of the values phase have no seeds, which vLLM draws faster; prompts
and budgets are ours (a fresh budget for late states would be more work). The rollouts have our
seeds, so both are about the same responses. The values phase of ours alone, which in a run overlaps
the rollouts, is measured on finished ones.
"""

import random
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.harness import alternate, parse_options, ratio, report, run_main
from benchmarks.workload import ITERATION, Workload, llm_of, open_workload
from vineppo.rollouts import Prompt
from vineppo.seeds import derive_seed
from vineppo.segment import build_segmenter
from vineppo.segment.token_texts import token_texts

NAME = "naive_schedule"


@dataclass(frozen=True)
class Work:
    """Tokens and requests of one measurement; `fed_tokens` are those computed as prefixes."""

    sampled_tokens: int
    fed_tokens: int
    requests: int
    values_s: float


@dataclass(frozen=True)
class State:
    """The text before a continuation, and how many tokens that may have."""

    prompt: Prompt
    prefix: str
    response: str
    max_tokens: int


def main() -> None:
    options = parse_options(NAME, "a naive schedule ÷ ours")
    with open_workload(options) as workload:
        drafts = workload.rollouts()
        spans_S = workload.spans(drafts)
        naive_runs: list[Work] = []
        our_runs: list[Work] = []

        def naive() -> float:
            seconds, work = workload.timed(lambda: naive_iteration(workload))
            naive_runs.append(work)
            return seconds

        def ours() -> float:
            before = workload.sampler.engine.counts
            seconds, experience = workload.timed(workload.experience)
            after = workload.sampler.engine.counts
            sampled = after.sampled_tokens - before.sampled_tokens
            cached = after.cached_tokens - before.cached_tokens
            fed = after.prompt_tokens - before.prompt_tokens - cached
            count = len(experience.rollouts) + experience.num_continuations
            our_runs.append(Work(sampled, fed, count, 0.0))
            return seconds

        measured = alternate(
            options.num_runs,
            {
                "naive": naive,
                "ours": ours,
                "ours_values": lambda: workload.timed(lambda: workload.values(drafts))[0],
            },
        )
        naive_values = [work.values_s for work in naive_runs]
        states = {
            (draft.prompt.problem.id, draft.completion.token_ids[: span.start])
            for draft, spans in zip(drafts, spans_S, strict=True)
            for span in spans
        }
        report(
            NAME,
            options,
            options.num_runs,
            {
                "naive / ours": ratio(measured["naive"], measured["ours"]),
                "naive / ours, values": ratio(naive_values, measured["ours_values"]),
            },
            {
                **{f"{name}_s": median(seconds) for name, seconds in measured.items()},
                "naive_values_s": median(naive_values),
                **figures("naive", naive_runs),
                **figures("ours", our_runs),
                "rollouts": len(drafts),
                "states": sum(len(spans) for spans in spans_S),
                "distinct_states": len(states),
                "K": workload.credit.num_continuations,
                "measured_s": {**measured, "naive_values": naive_values},
            },
        )


def figures(name: str, runs: list[Work]) -> dict[str, float]:
    keys = ("sampled_tokens", "fed_tokens", "requests")
    return {f"{name}_{key}": median(getattr(work, key) for work in runs) for key in keys}


def naive_iteration(workload: Workload) -> Work:
    """All rollouts, then all values, each in one call."""
    rollouts, states = naive_rollouts(workload)
    barrier = time.perf_counter()
    values = naive_values(workload, states)
    values_s = time.perf_counter() - barrier
    requests = len(rollouts) + len(states)
    outputs = [*rollouts, *values]
    sampled = sum(len(sample.token_ids) for output in outputs for sample in output.outputs)
    fed = sum(len(output.prompt_token_ids) * len(output.outputs) for output in outputs)
    assert not any(output.num_cached_tokens for output in outputs), "the prefix cache must be off"
    return Work(sampled, fed, requests, values_s)


def naive_rollouts(workload: Workload) -> tuple[list[Any], list[State]]:
    """What vLLM returned for the rollouts, and the states of all of them."""
    sampler, num_samples = workload.sampler, workload.config.rollouts.num_samples
    owners = [(p, index) for p in workload.prompts for index in range(num_samples)]
    texts = [sampler.tokenizer.decode(prompt.token_ids) for prompt, _ in owners]
    params = []
    for prompt, index in owners:
        seed = derive_seed(sampler.seed, ITERATION, "rollouts", prompt.problem.id, index)
        params.append(sampling_params(workload, sampler.sampling.max_tokens, 1, seed))
    outputs = generate(workload, texts, params)
    segmenter = build_segmenter(workload.credit.segmenter)
    states: list[State] = []
    rewards = []
    for (prompt, _), text, output in zip(owners, texts, outputs, strict=True):
        sample = output.outputs[0]
        _, reward = sampler.grade(prompt.problem, sample.token_ids, sample.finish_reason)
        rewards.append(reward)
        for span in segmenter(token_texts(sampler.tokenizer, sample.token_ids)):
            before = sampler.tokenizer.decode(sample.token_ids[: span.start])
            budget = sampler.sampling.max_tokens - span.start
            states.append(State(prompt, text + before, before, budget))
    for reward in rewards:
        reward.result()
    return outputs, states


def naive_values(workload: Workload, states: list[State]) -> list[Any]:
    """What vLLM returned for the continuations, all of them graded."""
    sampler, shuffled = workload.sampler, list(states)
    random.Random(sampler.seed).shuffle(shuffled)
    count = workload.credit.num_continuations
    params = [sampling_params(workload, state.max_tokens, count, None) for state in shuffled]
    outputs = generate(workload, [state.prefix for state in shuffled], params)
    rewards = []
    for state, output in zip(shuffled, outputs, strict=True):
        for sample in output.outputs:
            tail = sampler.tokenizer.decode(sample.token_ids, skip_special_tokens=True)
            rewards.append(
                sampler.grader.submit(
                    state.prompt.problem, state.response + tail, sample.finish_reason
                )
            )
    for reward in rewards:
        reward.result()
    return outputs


def generate(workload: Workload, texts: list[str], params: list[Any]) -> list[Any]:
    tokenizer = workload.sampler.tokenizer
    # One by one, as a server gets them; the text of a prompt holds its special tokens already.
    prompts = [
        {"prompt_token_ids": tokenizer(text, add_special_tokens=False)["input_ids"]}
        for text in texts
    ]
    outputs: list[Any] = llm_of(workload.sampler.engine).generate(prompts, params, use_tqdm=False)
    return outputs


def sampling_params(workload: Workload, max_tokens: int, count: int, seed: int | None) -> Any:
    from vllm import SamplingParams

    return SamplingParams(
        n=count,
        temperature=workload.sampler.sampling.temperature,
        top_p=workload.sampler.sampling.top_p,
        max_tokens=max_tokens,
        seed=seed,
        stop_token_ids=list(workload.stop_ids),
        detokenize=False,  # the engine has no tokenizer; responses are made text one by one above
        skip_reading_prefix_cache=True,
    )


if __name__ == "__main__":
    run_main(main)
