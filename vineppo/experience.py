"""One iteration's experience: rollouts, their steps, and the values of the steps' states."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vineppo.config.schema import RemaxCredit, SamplingConfig, TrainConfig, VineCredit
from vineppo.distributed import gather, num_ranks, rank
from vineppo.progress import Progress
from vineppo.reference_pass import ReferencePass
from vineppo.rollouts import Draft, Prompt, Sampler, submit_rollouts
from vineppo.segment import Segmenter
from vineppo.segment.token_texts import token_texts
from vineppo.types import Rollout, StateValue, StepSpan
from vineppo.values import StateValues


@dataclass(frozen=True)
class Experience:
    """The rollouts of an iteration in the order of prompts, with their steps.

    `values_S` are the Monte-Carlo values of the steps' states, None without them; `greedy_rewards`
    are those of the problems' greedy responses, where the estimator asks for them, `greedy_tokens`
    what those cost. `ref_logprobs` are the reference's, None where no `ReferencePass` was given.
    """

    rollouts: list[Rollout]
    spans_S: list[tuple[StepSpan, ...]]
    values_S: list[list[StateValue]] | None
    num_continuations: int
    greedy_rewards: dict[str, float]
    greedy_tokens: int
    ref_logprobs: list[tuple[float, ...]] | None


def gather_experience(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    config: TrainConfig,
    segmenter: Segmenter,
    iteration: int,
    progress: Progress,
    reference_pass: ReferencePass | None,
) -> Experience:
    """Rollouts and continuations of all prompts, on every rank; each samples its own share."""
    shares = gather(
        sample_experience(
            sampler, prompts_P[rank() :: num_ranks()], config, segmenter, iteration, progress,
            reference_pass,
        )
    )  # fmt: skip
    places: dict[str, list[tuple[Experience, int]]] = {}
    for share in shares:
        for i, rollout in enumerate(share.rollouts):
            places.setdefault(rollout.problem.id, []).append((share, i))
    items = [item for prompt in prompts_P for item in places[prompt.problem.id]]
    return Experience(
        rollouts=[share.rollouts[i] for share, i in items],
        spans_S=[share.spans_S[i] for share, i in items],
        values_S=(
            None
            if shares[0].values_S is None
            else [share.values_S[i] for share, i in items if share.values_S is not None]
        ),
        num_continuations=sum(share.num_continuations for share in shares),
        greedy_rewards={k: x for share in shares for k, x in share.greedy_rewards.items()},
        greedy_tokens=sum(share.greedy_tokens for share in shares),
        ref_logprobs=(
            None
            if shares[0].ref_logprobs is None
            else [share.ref_logprobs[i] for share, i in items if share.ref_logprobs is not None]
        ),
    )


def sample_experience(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    config: TrainConfig,
    segmenter: Segmenter,
    iteration: int,
    progress: Progress,
    reference_pass: ReferencePass | None,
) -> Experience:
    """Rollouts and the continuations of their states in one stream, without a barrier.

    A rollout that finishes is cut into steps at once, and its states join the running engine; the
    reference's log-probabilities and the graders' work go on meanwhile.
    What is submitted when depends on the engine's steps alone, never on the clock or on a grader,
    so that a repeated run batches alike. The phase "rollout" lasts until the last rollout is done,
    "values" until the engine is idle, "grading" until the last grader has answered.
    """
    progress.enter("rollout")
    credit, num_samples = config.credit, config.rollouts.num_samples
    state_values = (
        StateValues(sampler, credit, iteration) if isinstance(credit, VineCredit) else None
    )
    greedy: dict[str, Draft] = {}
    finished: dict[tuple[str, int], tuple[Draft, tuple[StepSpan, ...]]] = {}

    def split(draft: Draft) -> None:
        spans = segmenter(token_texts(sampler.tokenizer, draft.completion.token_ids))
        finished[draft.key] = draft, spans
        if state_values is not None:
            state_values.submit(draft, spans)
        if reference_pass is not None:
            reference_pass.add(draft.key, draft.prompt.token_ids, draft.completion.token_ids)

    def keep(draft: Draft) -> None:
        greedy[draft.prompt.problem.id] = draft

    submit_rollouts(sampler, prompts_P, num_samples, iteration, "rollouts", split)
    if isinstance(credit, RemaxCredit):
        submit_rollouts(as_greedy(sampler), prompts_P, 1, iteration, "greedy", keep)
    num_rollouts = len(prompts_P) * num_samples
    while sampler.engine.num_unfinished:
        all_done = len(finished) == num_rollouts
        progress.enter("values" if all_done and state_values is not None else "rollout")
        sampler.engine.step()
        progress.tick(sampler.engine)
        if reference_pass is not None and reference_pass.is_due(len(finished) == num_rollouts):
            progress.enter("logprobs")
            reference_pass.work()
    progress.enter("logprobs")
    ref_logprobs = {} if reference_pass is None else reference_pass.finish()
    progress.enter("grading")
    ordered = [finished[p.problem.id, index] for p in prompts_P for index in range(num_samples)]
    drafts = [draft for draft, _ in ordered]
    spans_S = [spans for _, spans in ordered]
    return Experience(
        rollouts=[draft.settle() for draft in drafts],
        spans_S=spans_S,
        values_S=None if state_values is None else state_values.settle(drafts, spans_S),
        num_continuations=0 if state_values is None else state_values.num_continuations,
        greedy_rewards={problem_id: draft.reward.result() for problem_id, draft in greedy.items()},
        greedy_tokens=sum(len(draft.completion.token_ids) for draft in greedy.values()),
        ref_logprobs=(
            None if reference_pass is None else [ref_logprobs[draft.key] for draft in drafts]
        ),
    )


def as_greedy(sampler: Sampler) -> Sampler:
    """The same policy at temperature 0."""
    budget = sampler.sampling.max_tokens
    return replace(sampler, sampling=SamplingConfig(temperature=0.0, top_p=1.0, max_tokens=budget))
