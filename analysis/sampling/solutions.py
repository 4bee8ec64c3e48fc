"""What a checkpoint's predictors say of the states of given solutions."""

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any

from analysis.sampling.journal import Journal
from analysis.sampling.policies import Checkpoint, Policies, add_values
from analysis.sampling.returns import request_of, sample_returns
from analysis.sampling.rollouts import RolloutState
from analysis.solutions import Solution
from vineppo.errors import UserError
from vineppo.models import LoadedModel
from vineppo.tasks.data_text import as_text, encode
from vineppo.tasks.prompts import encode_prompt
from vineppo.types import Problem, Rollout, StepSpan


def solution_values(
    policies: Policies, checkpoint: Checkpoint, solutions: Sequence[Solution], continuations: int
) -> list[tuple[Solution, dict[str, list[float]]]]:
    """By predictor V before every step and after the last, [S + 1], of solutions that have room.

    "mc_K" are the means of `continuations` fresh ones of each state. Raises `UserError` where no
    solution is short enough for the run's budget of tokens.
    """
    pairs = [(s, as_rollout(policies, s)) for s in solutions]
    kept = [(s, one) for s, one in pairs if has_room(policies, one)]
    if not kept:
        raise UserError(f"{checkpoint.title}: no solution has room in the run's token budget")
    if len(kept) < len(pairs):
        print(f"left out {len(pairs) - len(kept)} of {len(pairs)} solutions, which are too long")
    rollouts = [one for _, one in kept]
    policies.load(checkpoint.policy_path)
    names = add_values(policies, checkpoint, rollouts)
    values = [{name: list(one.values_S(name)) for name in names} for one in rollouts]
    if continuations:
        for of_one, means_S in zip(
            values, _means(policies, checkpoint, rollouts, continuations), strict=True
        ):
            of_one[f"mc_{continuations}"] = means_S
    return [(s, of_one) for (s, _), of_one in zip(kept, values, strict=True)]


def as_rollout(policies: Policies, solution: Solution) -> Rollout:
    """A step is its text and a newline; the end token is one more, before which the last state is.

    Its reward is whether no step is wrong.
    """
    loaded: LoadedModel = policies.loaded
    tokenizer, prompt = loaded.tokenizer, policies.config.task.prompt
    steps = [encode(tokenizer, f"{as_text(tokenizer, text)}\n") for text in solution.steps_S]
    steps.append((tokenizer.eos_token_id,))
    ends_S = list(accumulate(map(len, steps)))
    ids = tuple(token for step in steps for token in step)
    return Rollout(
        problem=Problem(f"{solution.id}", solution.question, solution.answer),
        rollout_index=0,
        prompt_ids=encode_prompt(prompt, tokenizer, solution.question),
        response_ids=ids,
        logprobs_T=(0.0,) * len(ids),
        finish_reason="stop",
        text="\n".join(solution.steps_S),
        reward=float(solution.first_wrong is None),
        spans_S=tuple(StepSpan(a, b) for a, b in zip([0, *ends_S[:-1]], ends_S, strict=True)),
    )


def has_room(policies: Policies, rollout: Rollout) -> bool:
    limit, budget = policies.config.engine.max_model_len, policies.config.sampling.max_tokens
    return len(rollout.prompt_ids) + budget <= limit and len(rollout.response_ids) <= budget


def _means(
    policies: Policies, checkpoint: Checkpoint, rollouts: Sequence[Rollout], continuations: int
) -> list[list[float]]:
    stream = (checkpoint.iteration, "step-errors")
    states: dict[Any, RolloutState] = {}
    for rollout in rollouts:
        for step in range(len(rollout.spans_S)):
            states[f"{rollout.problem.id} {step}"] = RolloutState(rollout, step)
    requests = [
        request_of(state.after(), continuations, stream, key) for key, state in states.items()
    ]
    journal = Journal(checkpoint.table.with_suffix(".partial.jsonl"), checkpoint.settings)
    found, _ = sample_returns(policies.sampler, requests, journal, checkpoint.title)
    journal.close()
    return [
        [fmean(found[f"{one.problem.id} {step}"].returns_K) for step in range(len(one.spans_S))]
        for one in rollouts
    ]
