"""An iteration's rollouts and values in two calls of the engine, with a barrier between them."""

import random
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from benchmarks.workload import ITERATION, Workload, llm_of
from vineppo.rollouts import Prompt
from vineppo.segment import token_texts
from vineppo.types import derive_seed


@dataclass(frozen=True)
class Schedule:
    """The savings that an arm of the benchmark has."""

    is_deduplicated: bool
    has_cache: bool  # of all prefixes; without it the samples of a request may still share theirs
    is_forked: bool


@dataclass(frozen=True)
class State:
    """The text before a continuation, and how many tokens that may have."""

    prompt: Prompt
    prefix: str
    response: str
    max_tokens: int


def iteration(workload: Workload, schedule: Schedule) -> int:
    """All rollouts, then all values, each in one call. Returns how many tokens were sampled."""
    rollouts, states = sample_rollouts(workload, schedule)
    if schedule.is_deduplicated:
        states = list({state.prefix: state for state in states}.values())
    outputs = [*rollouts, *sample_values(workload, schedule, states)]
    is_cached = any(output.num_cached_tokens for output in outputs)
    assert schedule.has_cache or schedule.is_forked or not is_cached, "the cache must be off"
    return sum(len(sample.token_ids) for output in outputs for sample in output.outputs)


def sample_rollouts(workload: Workload, schedule: Schedule) -> tuple[list[Any], list[State]]:
    """vLLM's output for the rollouts, and the states of all of them."""
    sampler, num_samples = workload.sampler, workload.config.rollouts.num_samples
    owners = [(p, index) for p in workload.prompts for index in range(num_samples)]
    texts = [sampler.tokenizer.decode(prompt.token_ids) for prompt, _ in owners]
    params = []
    for prompt, index in owners:
        seed = derive_seed(sampler.seed, ITERATION, "rollouts", prompt.problem.id, index)
        params.append(sampling_params(workload, schedule, sampler.sampling.max_tokens, 1, seed))
    outputs = generate(workload, schedule, texts, params)
    states: list[State] = []
    rewards = []
    for (prompt, _), text, output in zip(owners, texts, outputs, strict=True):
        sample = output.outputs[0]
        response = sampler.text(sample.token_ids)
        rewards.append(sampler.grader.submit(prompt.problem, response, sample.finish_reason))
        texts = token_texts(sampler.tokenizer, sample.token_ids)
        for span in workload.credit.segmenter.spans(texts):
            before = sampler.tokenizer.decode(sample.token_ids[: span.start])
            budget = sampler.sampling.max_tokens - span.start
            states.append(State(prompt, text + before, before, budget))
    for reward in rewards:
        reward.result()
    return outputs, states


def sample_values(workload: Workload, schedule: Schedule, states: list[State]) -> list[Any]:
    """vLLM's output for the continuations, all of them graded."""
    sampler, shuffled = workload.sampler, list(states)
    random.Random(sampler.seed).shuffle(shuffled)
    count = workload.credit.num_continuations
    params = [
        sampling_params(workload, schedule, state.max_tokens, count, None) for state in shuffled
    ]
    outputs = generate(workload, schedule, [state.prefix for state in shuffled], params)
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


def generate(
    workload: Workload, schedule: Schedule, texts: list[str], params: list[Any]
) -> list[Any]:
    tokenizer = workload.sampler.tokenizer
    # One by one, as a server gets them; the text of a prompt holds its special tokens already.
    prompts: list[dict[str, Any]] = [
        {"prompt_token_ids": tokenizer(text, add_special_tokens=False)["input_ids"]}
        for text in texts
    ]
    if schedule.is_forked:
        for prompt in prompts:
            prompt["cache_salt"] = uuid4().hex  # nobody else's
    outputs: list[Any] = llm_of(workload.sampler.engine).generate(prompts, params, use_tqdm=False)
    return outputs


def sampling_params(
    workload: Workload, schedule: Schedule, max_tokens: int, count: int, seed: int | None
) -> Any:
    from vllm import SamplingParams

    return SamplingParams(
        n=count,
        temperature=workload.sampler.sampling.temperature,
        top_p=workload.sampler.sampling.top_p,
        max_tokens=max_tokens,
        seed=seed,
        stop_token_ids=list(workload.stop_ids),
        detokenize=False,  # the engine has no tokenizer; responses are made text one by one above
        skip_reading_prefix_cache=not (schedule.has_cache or schedule.is_forked),
    )
