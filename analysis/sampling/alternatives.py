"""Alternative next steps at a state, drawn as its policy draws them.

A proposal is a whole continuation of the state, of which the first step counts. Distinct steps are
taken in the order of the proposals, whichever finished first, so that they are a sample of the
policy; what they are depends on the state, the policy and the seed alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.sampling.continuations import StateRequest
from vineppo.engine import Completion
from vineppo.errors import UserError
from vineppo.rollouts import Sampler
from vineppo.seeds import derive_seed, prefix_digest
from vineppo.segment import Segmenter
from vineppo.segment.token_texts import token_texts

ROUND = 16  # proposals at once; a state asks for more only while it lacks alternatives


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


Done = Callable[[StateRequest, list[Alternative]], None]


def sample_alternatives(
    sampler: Sampler,
    segmenter: Segmenter,
    requests: Iterable[StateRequest],
    num_alternatives: int,
    done: Done,
    tick: Callable[[], None],
) -> None:
    """Calls `done` for each state with its first `num_alternatives` distinct next steps, or fewer.

    `num_samples` of a request is the most proposals that are made for them. `tick` is called after
    every step of the engine. Raises `UserError` for a return that is neither 0 nor 1.
    """
    for request in requests:
        _Search(sampler, segmenter, request, num_alternatives, done).propose()
    while sampler.engine.num_unfinished:
        sampler.engine.step()
        tick()


def next_step_length(
    segmenter: Segmenter, tokenizer: Any, prefix_ids: Sequence[int], continuation_ids: Sequence[int]
) -> int:
    """Tokens of a continuation up to the first step boundary after the state, at least one.

    The whole response is cut, as in training: what a step is may depend on the text before it.
    With lines and a token a character, "2+3=5\\n5*2=" after "1+1=2\\n" has a step of 6.
    """
    state = len(prefix_ids)
    spans = segmenter(token_texts(tokenizer, (*prefix_ids, *continuation_ids)))
    return next(span.end for span in spans if span.end > state) - state


@dataclass
class _Search:
    """One state's proposals, a round after the other, until they hold enough distinct steps."""

    sampler: Sampler
    segmenter: Segmenter
    request: StateRequest
    num_alternatives: int
    done: Done
    proposals: dict[int, Completion] = field(default_factory=dict)
    steps_K: list[tuple[int, ...]] = field(default_factory=list)  # of the rounds that are over
    num_submitted: int = 0

    def propose(self) -> None:
        request = self.request
        prefix, prompt = request.prefix_ids, request.prompt
        state_ids = (*prompt.token_ids, *prefix)
        digest = prefix_digest(prefix)
        first = self.num_submitted
        self.num_submitted = min(first + ROUND, request.num_samples)
        for k in range(first, self.num_submitted):

            def finish(completion: Completion, k: int = k) -> None:
                self.proposals[k] = completion
                if len(self.proposals) == self.num_submitted:
                    self._end_round()

            self.sampler.submit(
                state_ids,
                self.sampler.sampling.max_tokens - len(prefix),
                derive_seed(self.sampler.seed, *request.stream, prompt.problem.id, digest, k),
                False,
                finish,
            )

    def _end_round(self) -> None:
        steps_K = self.steps_K
        new = range(len(steps_K), self.num_submitted)
        steps_K += [self._first_step(self.proposals[k]) for k in new]
        distinct = list(dict.fromkeys(steps_K))[: self.num_alternatives]
        if len(distinct) < self.num_alternatives and self.num_submitted < self.request.num_samples:
            self.propose()
            return
        alternatives = [
            Alternative(
                step_ids,
                steps_K.count(step_ids),
                len(steps_K),
                self._final_return(step_ids, self.proposals[steps_K.index(step_ids)]),
            )
            for step_ids in distinct
        ]
        self.done(self.request, alternatives)

    def _first_step(self, proposal: Completion) -> tuple[int, ...]:
        ids, tokenizer = proposal.token_ids, self.sampler.tokenizer
        return ids[: next_step_length(self.segmenter, tokenizer, self.request.prefix_ids, ids)]

    def _final_return(self, step_ids: tuple[int, ...], proposal: Completion) -> int | None:
        if len(step_ids) < len(proposal.token_ids):
            return None
        problem, whole = self.request.prompt.problem, (*self.request.prefix_ids, *step_ids)
        number = self.sampler.reward(problem, whole, proposal.finish_reason).result()
        if number not in (0.0, 1.0):
            raise UserError(
                f"problem {problem.id}: a return must be 0 or 1 to be counted, got {number:g}"
            )
        return int(number)
