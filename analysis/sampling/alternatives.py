"""Alternative next steps at a state, drawn as its policy draws them, and what follows each.

A proposal is a whole continuation of the state, of which the first step counts. Distinct steps are
taken in the order of the proposals, whichever finished first, so that they are a sample of the
policy; what they are depends on the state, the policy and the seed alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.sampling.journal import Journal, Meter
from analysis.sampling.policies import Checkpoint, Policies, add_values
from analysis.sampling.returns import Returns, checked_return, request_of, sample_returns
from analysis.sampling.rollouts import RolloutState, choose_states, read_saved, rollout_iteration
from analysis.stats.ranking import MIN_ALTERNATIVES
from vineppo.rollouts import Continuation, Sampler, State, StateRequest, sample_continuations
from vineppo.segment import Segmenter, build_segmenter
from vineppo.segment.token_texts import token_texts
from vineppo.types import Rollout, StepSpan

STREAM = "action-ranking"  # no random number of another analysis comes again
ROUND = 16  # proposals at once; a state asks for more only while it lacks alternatives
KINDS = {"truth": "num_samples", "draws": "num_draws"}


@dataclass(frozen=True)
class Alternative:
    """A next step, and how many of the state's `num_proposals` proposals began with it.

    `final_return` is the graded return, 0 or 1, of a step that ends the response (by its
    end-of-sequence token or because the budget is spent), and None of one that does not.
    """

    step_ids: tuple[int, ...]
    num_proposed: int
    num_proposals: int
    final_return: int | None


def ranking_rows(
    policies: Policies, checkpoint: Checkpoint, journal: Journal
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a table of alternatives and what follows them, and what sampling them cost."""
    settings = checkpoint.settings
    iteration = rollout_iteration(checkpoint.run_path, checkpoint.iteration)
    assert iteration is not None, "only checkpoints with rollouts are chosen"
    rollouts = read_saved(checkpoint.run_path, iteration, policies.problem)
    states = choose_states(
        rollouts, settings["num_states"], settings["seed"], iteration, checkpoint.title
    )
    policies.load(checkpoint.policy_path)
    segmenter = build_segmenter(checkpoint.config.credit.segmenter)
    proposed, proposals_cost = propose(policies, checkpoint, states, segmenter, journal)
    chosen = [
        (place, index, alternative)
        for place, alternatives in enumerate(proposed)
        if len(alternatives) >= MIN_ALTERNATIVES
        for index, alternative in enumerate(alternatives)
    ]
    returns, cost = follow(policies, checkpoint, states, chosen, journal)
    tokenizer = policies.sampler.tokenizer
    branches = [
        branch(states[place], alternative.step_ids, tokenizer) for place, _, alternative in chosen
    ]
    names = add_values(policies, checkpoint, rollouts, branches)
    rows = []
    for (place, index, alternative), left in zip(chosen, branches, strict=True):
        state, final = states[place], alternative.final_return
        begins = len(state.prefix_ids)
        texts = token_texts(tokenizer, (*state.prefix_ids, *alternative.step_ids))
        rows.append(
            {
                "checkpoint": checkpoint.iteration,
                "rollout_iteration": iteration,
                "num_drawn_states": len(states),
                **state.columns,
                "alternative_index": index,
                "step_ids": alternative.step_ids,
                "step_text": "".join(texts[begins:]),
                "num_proposed": alternative.num_proposed,
                "num_proposals": alternative.num_proposals,
                "is_terminal": final is not None,
                "num_samples": settings["num_samples"],
                **counted(alternative, returns, place, index, settings),
                # As in training, the value of an end is its return.
                "predictions": {
                    name: left.values_S(name)[-1] if final is None else float(final)
                    for name in names
                },
            }
        )
    return rows, {"proposals": proposals_cost, "continuations": cost}


def propose(
    policies: Policies,
    checkpoint: Checkpoint,
    states: Sequence[RolloutState],
    segmenter: Segmenter,
    journal: Journal,
) -> tuple[list[list[Alternative]], dict[str, float]]:
    """The first distinct next steps at every state."""
    by_place = {
        line["state"]: [
            Alternative(**entry | {"step_ids": tuple(entry["step_ids"])})
            for entry in line["alternatives"]
        ]
        for line in journal.lines
        if "alternatives" in line
    }
    missing = [place for place in range(len(states)) if place not in by_place]
    prefix_logprobs = {str(place): states[place].prefix_logprobs for place in missing}
    requests = [
        _request(policies, checkpoint, states[place], (), "num_proposals", "proposals", str(place))
        for place in missing
    ]
    sampler, limit = policies.sampler, checkpoint.settings["num_alternatives"]
    title = f"{checkpoint.title}, next steps"
    with Meter(title, len(states), len(by_place), sampler.engine) as meter:
        for request, alternatives in sample_alternatives(
            sampler, segmenter, requests, limit, meter, prefix_logprobs
        ):
            place = int(request.tag)
            by_place[place] = alternatives
            listed = [asdict(alternative) for alternative in alternatives]
            journal.append({"state": place, "alternatives": listed})
            meter.advance()
        return [by_place[place] for place in range(len(states))], meter.cost


def sample_alternatives(
    sampler: Sampler,
    segmenter: Segmenter,
    requests: Sequence[StateRequest],
    num_alternatives: int,
    meter: Meter,
    prefix_logprobs: Mapping[Any, Sequence[float]],
) -> Iterator[tuple[StateRequest, list[Alternative]]]:
    """Each request with its first `num_alternatives` distinct next steps, or fewer.

    `num_samples` of a request is the most proposals that are made for them. The log-probabilities
    of the states' tokens, by tag, are for segmenters that cut by them. Raises `UserError` for a
    return that is neither 0 nor 1.
    """
    proposals: dict[Any, list[Continuation]] = {}
    whole = {request.tag: request for request in requests}
    waiting = [_next_round(request, 0) for request in requests]
    while waiting:
        again = []
        for request, continuations in sample_continuations(sampler, waiting, meter.tick, True):
            key = request.tag
            made = proposals[key] = proposals.get(key, []) + continuations
            steps_K = [
                _first_step(sampler, segmenter, request.state, proposal, prefix_logprobs[key])
                for proposal in made
            ]
            distinct = _distinct(request.state, made, steps_K, num_alternatives)
            if len(distinct) < num_alternatives and len(made) < whole[key].num_samples:
                again.append(_next_round(whole[key], len(made)))
            else:
                yield whole[key], distinct
        waiting = again


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
    spans = segmenter(token_texts(tokenizer, response_ids), logprobs_T)
    return next(span.end for span in spans if span.end > state) - state


def follow(
    policies: Policies,
    checkpoint: Checkpoint,
    states: Sequence[RolloutState],
    chosen: Sequence[tuple[int, int, Alternative]],
    journal: Journal,
) -> tuple[dict[str, Returns], dict[str, float]]:
    """Returns after every alternative that does not end its response: `"truth 3 0"`, `"draws …"`.

    The number of the state and of its alternative make the key.
    """
    requests = [
        _request(
            policies,
            checkpoint,
            states[place],
            alternative.step_ids,
            size,
            kind,
            f"{kind} {place} {index}",
        )
        for place, index, alternative in chosen
        if alternative.final_return is None
        for kind, size in KINDS.items()
    ]
    return sample_returns(policies.sampler, requests, journal, f"{checkpoint.title}, returns")


def counted(
    alternative: Alternative,
    returns: Mapping[str, Returns],
    place: int,
    index: int,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """The columns of what follows a step. The one return of an end stands for all of them."""
    final = alternative.final_return
    if final is None:
        truth, draws = (returns[f"{kind} {place} {index}"] for kind in KINDS)
    else:
        truth, draws = (Returns((final,) * settings[size], 0, 0) for size in KINDS.values())
    return {
        "num_correct": truth.num_correct,
        "num_truncated": truth.num_truncated,
        "num_tokens": truth.num_tokens,
        "draws_D": draws.returns_K,
    }


def branch(state: RolloutState, step_ids: tuple[int, ...], tokenizer: Any) -> Rollout:
    """The rollout with another step at a state: its last step begins after that one.

    That step is a single token, which no value of the state before it sees.
    """
    rollout, begins = state.rollout, len(state.prefix_ids)
    ends = begins + len(step_ids)
    ids = (*state.prefix_ids, *step_ids)
    return Rollout(
        problem=rollout.problem,
        rollout_index=rollout.rollout_index,
        prompt_ids=rollout.prompt_ids,
        response_ids=(*ids, step_ids[-1]),
        logprobs_T=(0.0,) * (ends + 1),
        finish_reason="length",
        text="".join(token_texts(tokenizer, ids)),
        spans_S=(
            *rollout.spans_S[: state.step],
            StepSpan(begins, ends),
            StepSpan(ends, ends + 1),
        ),
    )


def _request(
    policies: Policies,
    checkpoint: Checkpoint,
    state: RolloutState,
    step_ids: tuple[int, ...],
    size: str,
    kind: str,
    key: str,
) -> StateRequest:
    prompt = policies.prompt(state.rollout.problem.id)
    return request_of(
        State(prompt, (*state.prefix_ids, *step_ids)),
        checkpoint.settings[size],
        (checkpoint.iteration, STREAM, kind),
        key,
    )


def _next_round(request: StateRequest, first: int) -> StateRequest:
    return replace(request, first=first, num_samples=min(ROUND, request.num_samples - first))


def _first_step(
    sampler: Sampler,
    segmenter: Segmenter,
    state: State,
    proposal: Continuation,
    prefix_logprobs: Sequence[float],
) -> tuple[int, ...]:
    completion = proposal.completion
    ids = (*state.prefix_ids, *completion.token_ids)
    logprobs_T = (*prefix_logprobs, *completion.logprobs_T)
    length = len(state.prefix_ids)
    return completion.token_ids[
        : next_step_length(segmenter, sampler.tokenizer, ids, logprobs_T, length)
    ]


def _distinct(
    state: State,
    proposals: Sequence[Continuation],
    steps_K: Sequence[tuple[int, ...]],
    limit: int,
) -> list[Alternative]:
    alternatives = []
    for step_ids in list(dict.fromkeys(steps_K))[:limit]:
        first = proposals[steps_K.index(step_ids)]
        is_end = len(step_ids) == len(first.completion.token_ids)
        final = checked_return(state.prompt.problem.id, first) if is_end else None
        alternatives.append(Alternative(step_ids, steps_K.count(step_ids), len(steps_K), final))
    return alternatives
