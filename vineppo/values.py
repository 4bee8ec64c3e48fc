"""Monte-Carlo state values: K fresh continuations from every step boundary, graded.

V̂(s_i) = (1/K) Σ_k R(prompt, response[:start_i] + continuation_k), continuation_k ~ π(· | s_i) as
the policy samples, with the token budget that the rollout had left at s_i (VinePPO, arXiv:
2410.01679, eq. 5).
"""

import hashlib
from array import array
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from vineppo.config.schema import VineCredit
from vineppo.engine import Completion
from vineppo.rollouts import Draft, Sampler
from vineppo.seeds import derive_seed
from vineppo.types import StateValue, StepSpan

# (problem id, prefix of the response), and what else keeps two states apart.
StateKey = tuple[str, tuple[int, ...], str]


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

    def __init__(self, sampler: Sampler, credit: VineCredit, iteration: int) -> None:
        self._sampler = sampler
        self._credit = credit
        self._iteration = iteration
        self._states: dict[StateKey, _State] = {}

    @property
    def num_continuations(self) -> int:
        return sum(len(state.rewards_K) for state in self._states.values())

    def submit(self, draft: Draft, spans_S: Sequence[StepSpan]) -> None:
        """Queues the continuations of the states s_0 … s_{S−1} of a finished rollout."""
        for step, span in enumerate(spans_S):
            key = self._key(draft, step, span)
            is_new = key not in self._states
            state = self._states.setdefault(key, _State())
            if is_new or self._credit.identical_prefixes == "union":
                self._sample(draft, step, span, state)

    def settle(
        self, drafts: Sequence[Draft], spans_S: Sequence[Sequence[StepSpan]]
    ) -> list[list[StateValue]]:
        """The values of every rollout's states, once the engine has finished; waits for graders.

        The tokens of a shared state are counted once, for the first of the rollouts given.
        """
        counted: set[StateKey] = set()
        values: list[list[StateValue]] = []
        for draft, spans in zip(drafts, spans_S, strict=True):
            values.append([])
            for step, span in enumerate(spans):
                key = self._key(draft, step, span)
                state = self._states[key]
                returns_K = tuple(r.result() for r in state.rewards_K if r is not None)
                assert len(returns_K) == len(state.rewards_K), "a continuation is missing"
                num_tokens = 0 if key in counted else state.num_tokens
                counted.add(key)
                values[-1].append(StateValue(returns_K, num_tokens))
        return values

    def _key(self, draft: Draft, step: int, span: StepSpan) -> StateKey:
        prefix = draft.completion.token_ids[: span.start]
        is_separate = self._credit.identical_prefixes == "separate"
        return draft.prompt.problem.id, prefix, f"{draft.rollout_index}/{step}" * is_separate

    def _sample(self, draft: Draft, step: int, span: StepSpan, state: _State) -> None:
        prefix = draft.completion.token_ids[: span.start]
        state_ids = (*draft.prompt.token_ids, *prefix)  # one tuple for all K requests
        problem = draft.prompt.problem
        owner = (
            _digest(prefix)
            if self._credit.identical_prefixes == "share"
            else f"{draft.rollout_index}/{step}"
        )
        for k in range(self._credit.num_continuations):
            slot = len(state.rewards_K)
            state.rewards_K.append(None)

            def finish(completion: Completion, slot: int = slot) -> None:
                whole = (*prefix, *completion.token_ids)
                state.rewards_K[slot] = self._sampler.reward(
                    problem, whole, completion.finish_reason
                )
                state.num_tokens += len(completion.token_ids)

            self._sampler.submit(
                state_ids,
                self._sampler.sampling.max_tokens - span.start,
                derive_seed(self._sampler.seed, self._iteration, "values", problem.id, owner, k),
                False,
                finish,
            )


def _digest(token_ids: tuple[int, ...]) -> str:
    return hashlib.blake2b(array("q", token_ids).tobytes(), digest_size=16).hexdigest()
