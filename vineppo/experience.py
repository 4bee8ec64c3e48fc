"""One iteration's experience: rollouts, their steps, and the values of the steps' states."""

from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.config.schema import CreditConfig
from vineppo.credit import step_advantages
from vineppo.progress import Progress
from vineppo.rollouts import Draft, Prompt, Sampler, submit_rollouts
from vineppo.segment import Segmenter
from vineppo.segment.token_texts import token_texts
from vineppo.types import Rollout, StateValue, StepSpan
from vineppo.values import StateValues


@dataclass(frozen=True)
class Experience:
    """The rollouts of an iteration in the order of prompts, with their steps and values."""

    rollouts: list[Rollout]
    spans_S: list[tuple[StepSpan, ...]]
    values_S: list[list[StateValue]]
    num_continuations: int

    def advantages(self, credit: CreditConfig) -> list[list[float]]:
        """One advantage a step, for every rollout."""
        return [
            step_advantages(credit, [value.mean for value in values_S], rollout.reward)
            for rollout, values_S in zip(self.rollouts, self.values_S, strict=True)
        ]


def gather_experience(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    num_samples: int,
    credit: CreditConfig,
    segmenter: Segmenter,
    iteration: int,
    progress: Progress,
) -> Experience:
    """Rollouts and the continuations of their states in one stream, without a barrier.

    A rollout that finishes is cut into steps at once, and its states join the running engine.
    What is submitted when depends on the engine's steps alone, never on the clock or on a grader,
    so that a repeated run batches alike. The phase "rollout" lasts until the last rollout is done,
    "values" until the engine is idle, "grading" until the last grader has answered.
    """
    progress.enter("rollout")
    state_values = StateValues(sampler, credit, iteration)
    finished: dict[tuple[str, int], tuple[Draft, tuple[StepSpan, ...]]] = {}

    def split(draft: Draft) -> None:
        spans = segmenter(token_texts(sampler.tokenizer, draft.completion.token_ids))
        finished[draft.prompt.problem.id, draft.rollout_index] = draft, spans
        state_values.submit(draft, spans)

    submit_rollouts(sampler, prompts_P, num_samples, iteration, "rollouts", split)
    num_rollouts = len(prompts_P) * num_samples
    while sampler.engine.num_unfinished:
        sampler.engine.step()
        if len(finished) == num_rollouts:
            progress.enter("values")
        progress.tick(sampler.engine)
    progress.enter("grading")
    drafts, spans_S = zip(
        *(finished[p.problem.id, index] for p in prompts_P for index in range(num_samples)),
        strict=True,
    )
    return Experience(
        rollouts=[draft.settle() for draft in drafts],
        spans_S=list(spans_S),
        values_S=state_values.settle(drafts, spans_S),
        num_continuations=state_values.num_continuations,
    )
