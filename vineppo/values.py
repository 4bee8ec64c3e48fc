"""Monte-Carlo state values: K fresh continuations from every step boundary, graded.

V̂(s_i) = (1/K) Σ_k R(prompt, response[:start_i] + continuation_k), continuation_k ~ π(· | s_i) as
the policy samples, with the token budget that the rollout had left at s_i (VinePPO, arXiv:
2410.01679, eq. 5).
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from vineppo.config.schema import SampledValues
from vineppo.engine import Completion
from vineppo.rollouts import Prompt, Sampler
from vineppo.seeds import derive_seed, prefix_digest
from vineppo.types import StateValue, StepSpan

# (problem id, digest of the prefix of the response), and what else keeps two states apart.
StateKey = tuple[str, str, str]


@dataclass(frozen=True)
class SteppedResponse:
    """A finished rollout cut into steps: all that the values of its states ask for."""

    prompt: Prompt
    rollout_index: int
    response_ids: tuple[int, ...]
    spans_S: tuple[StepSpan, ...]

    @property
    def key(self) -> tuple[str, int]:
        """Problem and index, which name a rollout of an iteration."""
        return self.prompt.problem.id, self.rollout_index


@dataclass
class _State:
    """The continuations of one distinct state, as they come in."""

    rewards_K: list[Future[float] | None] = field(default_factory=list)
    num_tokens: int = 0


class StateValues:
    """Collects the values of an iteration while its rollouts are still being sampled.

    How many continuations a state gets is fixed before any return is seen, so the means are
    unbiased. Which rollout comes first changes neither seeds nor values.
    """

    def __init__(self, sampler: Sampler, credit: SampledValues, iteration: int) -> None:
        self._sampler = sampler
        self._credit = credit
        self._iteration = iteration
        self._states: dict[StateKey, _State] = {}
        self._budget_left = 0

    @property
    def num_continuations(self) -> int:
        return sum(len(state.rewards_K) for state in self._states.values())

    @property
    def budget_left(self) -> int:
        """Tokens that the unfinished continuations may have at most."""
        return self._budget_left

    def budget(self, stepped: SteppedResponse, first: int = 0) -> int:
        """Tokens that the continuations of its states from `first` on may have at most.

        With K = 2, 10 tokens a response and steps that start at 0 and 4: 2 · (10 + 6).
        """
        max_tokens = self._sampler.sampling.max_tokens
        lengths = (max_tokens - span.start for span in stepped.spans_S[first:])
        return self._credit.num_continuations * sum(lengths)

    def submit(self, stepped: SteppedResponse, first: int = 0, end: int | None = None) -> None:
        """Queues the continuations of the states s_first … s_{end−1}, by default of all."""
        for step, span in list(enumerate(stepped.spans_S))[first:end]:
            key = state_key(self._credit, stepped, step, span)
            if key not in self._states or self._credit.identical_prefixes == "union":
                self._sample(stepped, step, span, key)

    def settle(self) -> dict[StateKey, StateValue]:
        """The value of every state, once the engine has finished; waits for graders."""
        found = {}
        for key, state in self._states.items():
            returns_K = tuple(r.result() for r in state.rewards_K if r is not None)
            assert len(returns_K) == len(state.rewards_K), "a continuation is missing"
            found[key] = StateValue(returns_K, state.num_tokens)
        return found

    def _sample(self, stepped: SteppedResponse, step: int, span: StepSpan, key: StateKey) -> None:
        state = self._states.setdefault(key, _State())
        prefix = stepped.response_ids[: span.start]
        state_ids = (*stepped.prompt.token_ids, *prefix)  # one tuple for all K requests
        problem = stepped.prompt.problem
        budget = self._sampler.sampling.max_tokens - span.start
        _, digest, _ = key
        is_shared = self._credit.identical_prefixes == "share"
        owner = digest if is_shared else f"{stepped.rollout_index}/{step}"
        for k in range(self._credit.num_continuations):
            slot = len(state.rewards_K)
            state.rewards_K.append(None)

            def finish(completion: Completion, slot: int = slot) -> None:
                whole = (*prefix, *completion.token_ids)
                state.rewards_K[slot] = self._sampler.reward(
                    problem, whole, completion.finish_reason
                )
                state.num_tokens += len(completion.token_ids)
                self._budget_left -= budget

            self._budget_left += budget
            self._sampler.submit(
                state_ids,
                budget,
                derive_seed(self._sampler.seed, self._iteration, "values", problem.id, owner, k),
                False,
                finish,
            )


def state_key(
    credit: SampledValues, stepped: SteppedResponse, step: int, span: StepSpan
) -> StateKey:
    prefix = prefix_digest(stepped.response_ids[: span.start])
    is_separate = credit.identical_prefixes == "separate"
    return stepped.prompt.problem.id, prefix, f"{stepped.rollout_index}/{step}" * is_separate


def values_of_rollouts(
    credit: SampledValues,
    stepped_B: Sequence[SteppedResponse],
    found: Mapping[StateKey, StateValue],
) -> list[list[StateValue]]:
    """The values of every rollout's states.

    The tokens of a shared state are counted once, for the first of the rollouts given.
    """
    counted: set[StateKey] = set()
    values_B: list[list[StateValue]] = []
    for stepped in stepped_B:
        values_B.append([])
        for step, span in enumerate(stepped.spans_S):
            key = state_key(credit, stepped, step, span)
            num_tokens = 0 if key in counted else found[key].num_tokens
            counted.add(key)
            values_B[-1].append(StateValue(found[key].returns_K, num_tokens))
    return values_B


def merged_values(
    credit: SampledValues, found_R: Sequence[Mapping[StateKey, StateValue]]
) -> dict[StateKey, StateValue]:
    """The values that several replicas found; a state may have been sampled by more than one.

    With "union" its returns add up, as they are of different rollouts. With "share" they are the
    same ones, of the same seeds, and count once; the tokens were sampled twice, and count so.
    """
    merged: dict[StateKey, StateValue] = {}
    for found in found_R:
        for key, value in found.items():
            if key not in merged:
                merged[key] = value
                continue
            there = merged[key]
            is_union = credit.identical_prefixes == "union"
            returns_K = there.returns_K + value.returns_K if is_union else there.returns_K
            merged[key] = StateValue(returns_K, there.num_tokens + value.num_tokens)
    return merged
