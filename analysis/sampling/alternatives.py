"""Alternative next steps at a state, drawn as its policy draws them, and what follows each.

A proposal is a whole continuation of the state; only its first step counts. Distinct steps follow
the order of the proposals, not of finishing, so they are a sample of the policy. They depend only
on the state, the policy and the seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.sampling.continuations import sample_continuations
from analysis.sampling.journal import Journal, Meter
from analysis.sampling.policies import Checkpoint, Policies, add_values
from analysis.sampling.returns import (
    KINDS,
    Returns,
    checked_return,
    counts,
    request_of,
    sample_counts,
    states_of,
)
from analysis.sampling.rollouts import RolloutState
from analysis.stats.ranking import MIN_ALTERNATIVES
from vineppo.errors import UserError
from vineppo.rollouts import Continuation, Sampler, State
from vineppo.segment import Segmenter, token_texts
from vineppo.types import Rollout, StepSpan

STREAM = "action-ranking"  # no random number of another analysis comes again


@dataclass(frozen=True)
class Alternative:
    """A next step, and how many of the state's `num_proposals` proposals began with it.

    `final_return` is the graded return, 0 or 1, of a step that ends the response, else None. An
    end-of-sequence token or a spent budget ends it.
    """

    step_ids: tuple[int, ...]
    step_logprobs: tuple[float, ...]  # the engine's, of those tokens
    num_proposed: int
    num_proposals: int
    final_return: int | None


Chosen = Mapping[str, tuple[RolloutState, Alternative]]  # "3 0": of state 3 the first alternative


def ranking_rows(
    policies: Policies, checkpoint: Checkpoint, journal: Journal
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a table of alternatives and what follows them, and what sampling them cost."""
    cuts = f"{checkpoint.run_path}: action-ranking cuts"
    if checkpoint.config.reads_entropies:
        raise UserError(
            f"{cuts} while it samples, without the entropies that its steps or cuts need"
        )
    if checkpoint.config.task.environment is not None:
        raise UserError(f"{cuts} single responses, and task.environment has several turns")
    segmenter = checkpoint.config.credit.segmenter
    iteration, rollouts, states = states_of(policies, checkpoint)
    sampler, tokenizer = policies.sampler, policies.sampler.tokenizer
    proposed, proposals_cost = propose(sampler, checkpoint, states, segmenter)
    chosen = {
        f"{place} {index}": (states[place], alternative)
        for place, alternatives in enumerate(proposed)
        if len(alternatives) >= MIN_ALTERNATIVES
        for index, alternative in enumerate(alternatives)
    }
    counts_of, cost = follow(sampler, checkpoint, chosen, journal)
    branches = {key: branch(*of_key, tokenizer) for key, of_key in chosen.items()}
    names = add_values(policies, checkpoint, rollouts, list(branches.values()))
    rows = []
    for key, (state, alternative) in chosen.items():
        final, branched = alternative.final_return, branches[key]
        texts = token_texts(tokenizer, (*state.prefix_ids, *alternative.step_ids))
        rows.append(
            {
                "checkpoint": checkpoint.iteration,
                "rollout_iteration": iteration,
                "num_drawn_states": len(states),
                **state.columns,
                "alternative_index": int(key.split()[1]),
                "step_ids": alternative.step_ids,
                "step_text": "".join(texts[len(state.prefix_ids) :]),
                "num_proposed": alternative.num_proposed,
                "num_proposals": alternative.num_proposals,
                "is_terminal": final is not None,
                **counts_of[key],
                # As in training, the value of an end is its return.
                "predictions": {
                    name: branched.values_S(name)[-1] if final is None else float(final)
                    for name in names
                },
            }
        )
    return rows, {"proposals": proposals_cost, "continuations": cost}


def propose(
    sampler: Sampler,
    checkpoint: Checkpoint,
    states: Sequence[RolloutState],
    segmenter: Segmenter,
) -> tuple[list[list[Alternative]], dict[str, float]]:
    """The first distinct next steps at every state, `num_alternatives` of them or fewer.

    The log-probabilities of the rollout's tokens are for segmenters that cut by them. Raises
    `UserError` for a return that is neither 0 nor 1.
    """
    number, limit = (checkpoint.settings[f"num_{what}"] for what in ("proposals", "alternatives"))
    stream = (checkpoint.iteration, STREAM, "proposals")
    requests = [
        request_of(state.after(), number, stream, place) for place, state in enumerate(states)
    ]
    proposed: dict[int, list[Alternative]] = {}
    with Meter(f"{checkpoint.title}, next steps", len(states), 0, sampler.engine) as meter:
        for request, proposals in sample_continuations(sampler, requests, meter.tick, True):
            logprobs_T = states[request.tag].rollout.logprobs_T
            found = _distinct(sampler, segmenter, request.state, proposals, logprobs_T)
            proposed[request.tag] = found[:limit]
            meter.advance()
        return [proposed[place] for place in range(len(states))], meter.cost


def next_step_length(
    segmenter: Segmenter,
    tokenizer: Any,
    response_ids: Sequence[int],
    logprobs_T: Sequence[float],
    state: int,
) -> int:
    """Tokens of a response from the first `state` ones to the next step boundary, at least one.

    The whole response is cut, as in training: what a step is may depend on the text before it.
    With lines and a token a character, "1+1=2\n2+3=5\n5*2=" has a step of 6 after "1+1=2\n".
    """
    spans = segmenter.spans(token_texts(tokenizer, response_ids), logprobs_T)
    return next(span.end for span in spans if span.end > state) - state


def follow(
    sampler: Sampler, checkpoint: Checkpoint, chosen: Chosen, journal: Journal
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """`counts` of what follows every alternative, by its key, and what sampling that cost.

    The one return of a step that ends its response stands for all of them.
    """
    left = {
        key: state.after(one.step_ids)
        for key, (state, one) in chosen.items()
        if one.final_return is None
    }
    title = f"{checkpoint.title}, returns"
    counts_of, cost = sample_counts(sampler, checkpoint, left, STREAM, journal, title)
    sizes = [checkpoint.settings[size] for size in KINDS.values()]
    for key, (_, one) in chosen.items():
        if one.final_return is not None:
            counts_of[key] = counts(*(Returns((one.final_return,) * size, 0, 0) for size in sizes))
    return counts_of, cost


def branch(state: RolloutState, alternative: Alternative, tokenizer: Any) -> Rollout:
    """The rollout with another step at a state: its last step begins after that one.

    That step is a single token, which no value of the state before it sees.
    """
    rollout, begins = state.rollout, len(state.prefix_ids)
    step_ids, step_logprobs = alternative.step_ids, alternative.step_logprobs
    ends = begins + len(step_ids)
    ids = (*state.prefix_ids, *step_ids)
    return Rollout(
        problem=rollout.problem,
        rollout_index=rollout.rollout_index,
        prompt_ids=rollout.prompt_ids,
        response_ids=(*ids, step_ids[-1]),
        logprobs_T=(*rollout.logprobs_T[:begins], *step_logprobs, step_logprobs[-1]),
        finish_reason="length",
        text="".join(token_texts(tokenizer, ids)),
        spans_S=(
            *rollout.spans_S[: state.step],
            StepSpan(begins, ends),
            StepSpan(ends, ends + 1),
        ),
    )


def _distinct(
    sampler: Sampler,
    segmenter: Segmenter,
    state: State,
    proposals: Sequence[Continuation],
    logprobs_T: Sequence[float],
) -> list[Alternative]:
    """The proposals' first steps, in their order."""
    length = len(state.prefix_ids)
    begun: dict[tuple[int, ...], list[Continuation]] = {}
    for proposal in proposals:
        token_ids, later_T = proposal.completion.token_ids, proposal.completion.logprobs_T
        whole = (*state.prefix_ids, *token_ids), (*logprobs_T[:length], *later_T)
        num_tokens = next_step_length(segmenter, sampler.tokenizer, *whole, length)
        begun.setdefault(token_ids[:num_tokens], []).append(proposal)
    alternatives = []
    for step_ids, (first, *others) in begun.items():
        is_end = len(step_ids) == len(first.completion.token_ids)
        final = checked_return(state.prompt.problem.id, first) if is_end else None
        step_logprobs = first.completion.logprobs_T[: len(step_ids)]
        alternatives.append(
            Alternative(step_ids, step_logprobs, 1 + len(others), len(proposals), final)
        )
    return alternatives
