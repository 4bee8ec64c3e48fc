"""Rollouts and values of a checkpoint sampled anew, where a run's tables do not hold them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.sampling.continuations import Returns, StateRequest, sample_returns
from analysis.sampling.journal import Journal
from analysis.sampling.meter import Meter
from analysis.sampling.policies import Policies, at_temperature
from analysis.sampling.saved import SavedRollout
from vineppo.config.schema import TrainConfig
from vineppo.rollouts import Draft, Prompt, submit_rollouts
from vineppo.schedules import problems_of_iteration
from vineppo.seeds import prefix_digest
from vineppo.segment import build_segmenter
from vineppo.segment.token_texts import token_texts
from vineppo.types import StateValue

PHASE = "rollouts"  # with log-probabilities of the engine


@dataclass(frozen=True)
class Greedy:
    """Rewards of greedy responses by problem, and the tokens that each took."""

    rewards: dict[str, float]
    num_tokens: dict[str, int]


def sample_drafts(
    policies: Policies,
    prompts_P: Sequence[Prompt],
    num_samples: int,
    iteration: int,
    phase: str,
    title: str,
) -> list[Draft]:
    """`num_samples` responses of every prompt by the engine's policy, by prompt and index."""
    sampler, found = policies.sampler, dict[tuple[str, int], Draft]()
    with Meter(title, len(prompts_P) * num_samples, 0, sampler.engine) as meter:

        def keep(draft: Draft) -> None:
            found[draft.key] = draft
            meter.advance()

        submit_rollouts(sampler, prompts_P, num_samples, iteration, phase, keep)
        while sampler.engine.num_unfinished:
            sampler.engine.step()
            meter.tick()
    return [found[p.problem.id, index] for p in prompts_P for index in range(num_samples)]


def sample_rollouts(
    policies: Policies, config: TrainConfig, iteration: int, num_problems: int, title: str
) -> list[SavedRollout]:
    """Rollouts of the engine's policy as iteration `iteration` would have trained on them.

    With the run's `rollouts.num_prompts` problems they are that iteration's; the random streams are
    the analysis's.
    """
    prompts = list(policies.train_by_id.values())
    count = min(num_problems, len(prompts))
    chosen = problems_of_iteration(len(prompts), count, iteration, config.seed)
    prompts_P = [prompts[i] for i in chosen]
    number = config.rollouts.num_samples
    segmenter = build_segmenter(config.credit.segmenter)
    saved = []
    for draft in sample_drafts(policies, prompts_P, number, iteration, PHASE, title):
        texts = token_texts(policies.sampler.tokenizer, draft.completion.token_ids)
        saved.append(
            SavedRollout(draft.settle(), segmenter(texts, draft.completion.logprobs_T), None)
        )
    return saved


def sample_values(
    policies: Policies,
    saved: Sequence[SavedRollout],
    num_continuations: int,
    checkpoint: int,
    journal: Journal,
    title: str,
) -> tuple[list[SavedRollout], Greedy]:
    """`saved` with K fresh returns of every distinct state, and the problems' greedy responses.

    Resumable: what the journal holds is not sampled again.
    """
    states = {
        _key(one, step): (one, step) for one in saved for step in range(len(one.spans_S))
    }  # the same state of several rollouts once
    problems = list(dict.fromkeys(one.rollout.problem.id for one in saved))
    stream = (checkpoint, "gradient-variance")
    requests = [
        StateRequest(
            policies.prompt(one.rollout.problem.id), one.prefix_ids(step), num_continuations,
            (*stream, "values"), key,
        )
        for key, (one, step) in states.items()
    ]  # fmt: skip
    greedy_requests = [
        StateRequest(policies.prompt(name), (), 1, (*stream, "greedy"), f"greedy {name}")
        for name in problems
    ]
    results = {line["key"]: line for line in journal.lines}
    total = len(requests) + len(greedy_requests)
    with Meter(title, total, len(results), policies.sampler.engine) as meter:

        def keep(request: StateRequest, returns: Returns) -> None:
            line = {
                "key": request.tag,
                "returns": returns.returns_K,
                "num_tokens": returns.num_tokens,
            }
            results[str(request.tag)] = line
            journal.append(line)
            meter.advance()

        greedy_sampler = at_temperature(policies.sampler, 0.0, 1.0)
        for sampler, wanted in ((policies.sampler, requests), (greedy_sampler, greedy_requests)):
            missing = [request for request in wanted if request.tag not in results]
            sample_returns(sampler, missing, keep, meter.tick)
    greedy = {name: results[f"greedy {name}"] for name in problems}
    return _with_values(saved, results), Greedy(
        rewards={name: float(line["returns"][0]) for name, line in greedy.items()},
        num_tokens={name: line["num_tokens"] for name, line in greedy.items()},
    )


def _with_values(
    saved: Sequence[SavedRollout], results: dict[str, dict[str, Any]]
) -> list[SavedRollout]:
    """The tokens of a state are counted for the first rollout that passes it."""
    counted: set[str] = set()
    found = []
    for one in saved:
        values_S = []
        for step in range(len(one.spans_S)):
            key = _key(one, step)
            line = results[key]
            num_tokens = 0 if key in counted else line["num_tokens"]
            counted.add(key)
            values_S.append(StateValue(tuple(map(float, line["returns"])), num_tokens))
        found.append(replace(one, values_S=tuple(values_S)))
    return found


def _key(one: SavedRollout, step: int) -> str:
    return f"{prefix_digest(one.prefix_ids(step))} {one.rollout.problem.id}"
