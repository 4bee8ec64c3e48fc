"""Returns of fresh continuations: of any states, a checkpoint's ground truth, values of rollouts.

What a state's continuations are depends on the state, the policy and the seed alone, not on what
else is sampled with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.sampling.continuations import StateRequest, sample_continuations
from analysis.sampling.journal import Journal, Meter
from analysis.sampling.policies import Checkpoint, Policies, add_values
from analysis.sampling.rollouts import RolloutState, choose_states, read_saved, rollout_iteration
from vineppo.errors import UserError
from vineppo.plugins import Plugin
from vineppo.rollouts import Continuation, Sampler, State
from vineppo.seeds import prefix_digest
from vineppo.types import MONTE_CARLO, Rollout, StateValue

KINDS = {"truth": "num_samples", "draws": "num_draws"}  # of returns, by the settings' names


@dataclass(frozen=True)
class Returns:
    """A state's returns in the order of their seeds, each 0 or 1, and what they took."""

    returns_K: tuple[int, ...]
    num_tokens: int
    num_truncated: int


def request_of(
    state: State, num_samples: int, stream: tuple[int | str, ...], key: Any
) -> StateRequest:
    """`num_samples` continuations; `stream` keeps their random numbers apart from all others.

    `key` names the request among those of a journal.
    """
    whose = state.prompt.problem.id, prefix_digest(state.prefix_ids)
    return StateRequest(state, num_samples, (*stream, *whose), tag=key)


def sample_returns(
    sampler: Sampler, requests: Sequence[StateRequest], journal: Journal, title: str
) -> tuple[dict[str, Returns], dict[str, float]]:
    """The returns of every request by its key, and what sampling them cost.

    Returns in the journal are kept. Raises `UserError` for a return that is neither 0 nor 1.
    """
    wanted = {request.tag for request in requests}
    returns_by_tag = {
        line["key"]: Returns(tuple(line["returns_K"]), line["num_tokens"], line["num_truncated"])
        for line in journal.lines
        if line.get("key") in wanted
    }
    missing = [request for request in requests if request.tag not in returns_by_tag]
    with Meter(title, len(requests), len(returns_by_tag), sampler.engine) as meter:
        for request, continuations in sample_continuations(sampler, missing, meter.tick):
            returns_by_tag[request.tag] = returns = _counted(request, continuations)
            journal.append({"key": request.tag, **asdict(returns)})
            meter.advance()
        return returns_by_tag, meter.cost


def states_of(
    policies: Policies, checkpoint: Checkpoint
) -> tuple[int, list[Rollout], list[RolloutState]]:
    """The iteration of a checkpoint's rollouts, these, and the chosen states; loads its policy."""
    _check_countable(checkpoint)
    settings = checkpoint.settings
    iteration = rollout_iteration(checkpoint.run_path, checkpoint.iteration)
    assert iteration is not None, "only checkpoints with rollouts are chosen"
    rollouts = read_saved(checkpoint.run_path, iteration, policies.problem)
    states = choose_states(
        rollouts, settings["num_states"], settings["seed"], iteration, checkpoint.title
    )
    policies.load(checkpoint.policy_path)
    return iteration, rollouts, states


def _check_countable(checkpoint: Checkpoint) -> None:
    """Refuses a run with a reward model: what is sampled here the verifier alone grades."""
    if checkpoint.config.reward_model is not None:
        raise UserError(
            f"{checkpoint.run_path} was trained with reward_model, whose rewards are no successes "
            "to count"
        )


def sample_counts(
    sampler: Sampler,
    checkpoint: Checkpoint,
    states: Mapping[str, State],
    stream: str,
    journal: Journal,
    title: str,
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """`counts` of what follows each state, by its key, and what sampling it cost.

    `num_samples` returns of a state are its truth, `num_draws` others are for Monte-Carlo values.
    """
    requests = [
        request_of(state, number, (checkpoint.iteration, stream, kind), f"{kind} {key}")
        for key, state in states.items()
        for kind, size in KINDS.items()
        if (number := checkpoint.settings[size])
    ]
    returns, cost = sample_returns(sampler, requests, journal, title)
    none = Returns((), 0, 0)
    return {
        key: counts(*(returns.get(f"{kind} {key}", none) for kind in KINDS)) for key in states
    }, cost


def counts(truth: Returns, draws: Returns) -> dict[str, Any]:
    """The columns of tables on the returns after a state."""
    return {
        "num_samples": len(truth.returns_K),
        "num_correct": sum(truth.returns_K),
        "num_truncated": truth.num_truncated,
        "num_tokens": truth.num_tokens,
        "draws_D": draws.returns_K,
    }


def checked_return(problem_id: str, continuation: Continuation) -> int:
    """Raises `UserError` for one that is neither 0 nor 1: the statistics count successes."""
    number = continuation.reward.result()
    if number not in (0.0, 1.0):
        raise UserError(
            f"problem {problem_id}: a return must be 0 or 1 to be counted, got {number:g}"
        )
    return int(number)


def _counted(request: StateRequest, continuations: Sequence[Continuation]) -> Returns:
    problem_id = request.state.prompt.problem.id
    completions = [continuation.completion for continuation in continuations]
    return Returns(
        returns_K=tuple(checked_return(problem_id, continuation) for continuation in continuations),
        num_tokens=sum(len(continuation.token_ids) for continuation in completions),
        num_truncated=sum(continuation.finish_reason == "length" for continuation in completions),
    )


def truth_rows(
    policies: Policies, checkpoint: Checkpoint, journal: Journal
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The rows of a ground-truth table, and what sampling them cost.

    Beside the counts stands what the checkpoint's predictors say, of those without continuations.
    """
    iteration, rollouts, states = states_of(policies, checkpoint)
    by_key = {str(place): state for place, state in enumerate(states)}
    counts_of, cost = sample_counts(
        policies.sampler, checkpoint, {key: state.after() for key, state in by_key.items()},
        "ground-truth", journal, checkpoint.title,
    )  # fmt: skip
    names = add_values(policies, checkpoint, rollouts)
    rows = [
        {
            "checkpoint": checkpoint.iteration,
            "rollout_iteration": iteration,
            **state.columns,
            "reward": state.rollout.reward,
            **counts_of[key],
            "predictions": {name: state.rollout.values_S(name)[state.step] for name in names},
        }
        for key, state in by_key.items()
    ]
    return rows, cost


def add_fresh_values(
    policies: Policies, checkpoint: Checkpoint, rollouts: Sequence[Rollout], journal: Journal,
    half: str = "",
) -> dict[str, int]:  # fmt: skip
    """Sets returns of every distinct state and greedy rewards; gives the greedy responses' tokens.

    Resumable: what the journal holds is not sampled again. Each `half` has other returns.
    """
    _check_countable(checkpoint)
    number = checkpoint.settings["sample_values"]
    values = Plugin("values").parse({"kind": "monte_carlo", "num_continuations": number})
    predictor = values.predictor(MONTE_CARLO, checkpoint.config, values)
    states = {
        predictor.state_key(rollout, step): RolloutState(rollout, step).after()
        for rollout in rollouts
        for step in range(len(rollout.spans_S))
    }
    stream, halves = (checkpoint.iteration, "gradient-variance"), ((half,) if half else ())
    requests = [
        request_of(state, number, (*stream, "values", *halves), " ".join((*key, *halves)))
        for key, state in states.items()
    ]
    sampler, title = policies.sampler, checkpoint.title
    returns, _ = sample_returns(sampler, requests, journal, f"{title}, values")
    drawn = {key: returns[" ".join((*key, *halves))] for key in states}
    values_by_key = {
        key: StateValue(tuple(map(float, state.returns_K)), state.num_tokens)
        for key, state in drawn.items()
    }
    predictor.merge(rollouts, [values_by_key])
    greedy = replace(sampler, sampling=replace(sampler.sampling, temperature=0.0))
    queries = {rollout.problem.id: RolloutState(rollout, 0).after() for rollout in rollouts}
    requests = [
        request_of(query, 1, (*stream, "greedy"), f"greedy {name}")
        for name, query in queries.items()
    ]
    returns, _ = sample_returns(greedy, requests, journal, f"{title}, greedy responses")
    for rollout in rollouts:
        (reward,) = returns[f"greedy {rollout.problem.id}"].returns_K
        rollout.greedy_reward = float(reward)
    return {name: returns[f"greedy {name}"].num_tokens for name in queries}
