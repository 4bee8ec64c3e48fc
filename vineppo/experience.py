"""One iteration's experience: rollouts, their steps, and the values of the steps' states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vineppo.config.schema import RemaxCredit, SamplingConfig, TrainConfig
from vineppo.credit import sampled_values
from vineppo.distributed import gather, num_replicas, rank, replica
from vineppo.progress import Progress
from vineppo.reference_pass import ReferencePass
from vineppo.rollouts import Draft, Prompt, Sampler, submit_rollouts
from vineppo.segment import Segmenter
from vineppo.segment.token_texts import token_texts
from vineppo.types import Rollout, StateValue, StepSpan
from vineppo.values import (
    StateKey,
    StateValues,
    SteppedResponse,
    merged_values,
    values_of_rollouts,
)
from vineppo.work_sharing import WorkSharing


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


@dataclass(frozen=True)
class Share:
    """What one replica sampled: rollouts of its problems, and values of whichever states it got."""

    rollouts: list[tuple[Rollout, SteppedResponse]]
    values: Mapping[StateKey, StateValue]
    num_continuations: int
    greedy_rewards: dict[str, float]
    greedy_tokens: int
    ref_logprobs: dict[tuple[str, int], tuple[float, ...]] | None


def gather_experience(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    config: TrainConfig,
    segmenter: Segmenter,
    iteration: int,
    progress: Progress,
    reference_pass: ReferencePass | None,
) -> Experience:
    """Rollouts and continuations of all prompts, on every rank; the replicas share the work."""
    each = sampler.engine.ranks_a_replica
    mine_P = prompts_P[replica(each) :: num_replicas(each)]
    share = sample_share(sampler, mine_P, config, segmenter, iteration, progress, reference_pass)
    credit = sampled_values(config.credit)
    progress.enter("rollout" if credit is None else "values")  # the others are still at it
    everyone = gather(share)
    shares = everyone[::each]
    by_key = {stepped.key: (r, stepped) for share in shares for r, stepped in share.rollouts}
    indices = range(config.rollouts.num_samples)
    items = [by_key[prompt.problem.id, index] for prompt in prompts_P for index in indices]
    stepped_B = [stepped for _, stepped in items]
    values_S = None
    if credit is not None:
        found = merged_values(credit, [share.values for share in shares])
        values_S = values_of_rollouts(credit, stepped_B, found)
    ref_logprobs = {
        key: logprobs for share in everyone for key, logprobs in (share.ref_logprobs or {}).items()
    }
    return Experience(
        rollouts=[rollout for rollout, _ in items],
        spans_S=[stepped.spans_S for stepped in stepped_B],
        values_S=values_S,
        num_continuations=sum(share.num_continuations for share in shares),
        greedy_rewards={k: x for share in shares for k, x in share.greedy_rewards.items()},
        greedy_tokens=sum(share.greedy_tokens for share in shares),
        ref_logprobs=(None if reference_pass is None else [ref_logprobs[s.key] for s in stepped_B]),
    )


def sample_share(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    config: TrainConfig,
    segmenter: Segmenter,
    iteration: int,
    progress: Progress,
    reference_pass: ReferencePass | None,
) -> Share:
    """Rollouts and the continuations of their states in one stream, without a barrier.

    The phase "rollout" lasts until the last rollout is done, "values" until the engine is idle,
    "grading" until the last grader has answered.
    """
    progress.enter("rollout")
    num_samples = config.rollouts.num_samples
    num_rollouts = len(prompts_P) * num_samples
    credit = sampled_values(config.credit)
    values = None if credit is None else StateValues(sampler, credit, iteration)
    sharing = None if values is None else WorkSharing(sampler, values, num_rollouts)
    stream = Stream(sampler, segmenter, num_rollouts, sharing, reference_pass)
    submit_rollouts(sampler, prompts_P, num_samples, iteration, "rollouts", stream.split)
    is_remax = isinstance(config.credit, RemaxCredit)
    greedy = submit_greedy(sampler, prompts_P, iteration) if is_remax else {}
    stream.run(progress)
    progress.enter("logprobs")
    ref_logprobs = None if reference_pass is None else reference_pass.finish()
    progress.enter("grading")
    return Share(
        rollouts=[(draft.settle(), stepped) for draft, stepped in stream.finished.values()],
        values={} if values is None else values.settle(),
        num_continuations=0 if values is None else values.num_continuations,
        greedy_rewards={problem_id: draft.reward.result() for problem_id, draft in greedy.items()},
        greedy_tokens=sum(len(draft.completion.token_ids) for draft in greedy.values()),
        ref_logprobs=ref_logprobs,
    )


@dataclass
class Stream:
    """The running engine of a replica, and what becomes of the rollouts that finish in it.

    A rollout that finishes is cut into steps at once, and its states join the engine (or another
    replica's, see `WorkSharing`); the reference's log-probabilities and the graders' work go on
    meanwhile. What is submitted when depends on the engine's steps alone, never on the clock or on
    a grader, so that a repeated run batches alike.
    """

    sampler: Sampler
    segmenter: Segmenter
    num_rollouts: int
    sharing: WorkSharing | None  # None: the estimator takes no Monte-Carlo values
    reference_pass: ReferencePass | None
    finished: dict[tuple[str, int], tuple[Draft, SteppedResponse]] = field(default_factory=dict)

    @property
    def is_all_finished(self) -> bool:
        """Whether the last rollout is done; continuations may still run."""
        return len(self.finished) == self.num_rollouts

    def split(self, draft: Draft) -> None:
        """Cuts a finished rollout into steps, and hands it to all who work on it."""
        response_ids = draft.completion.token_ids
        texts_T = token_texts(self.sampler.tokenizer, response_ids)
        spans_S = self.segmenter(texts_T, draft.completion.logprobs_T)
        stepped = SteppedResponse(draft.prompt, draft.rollout_index, response_ids, spans_S)
        self.finished[draft.key] = draft, stepped
        if self.sharing is not None:
            self.sharing.add(stepped)
        # Ranks that share a replica have the same rollouts, and share the reference's passes too.
        each = self.sampler.engine.ranks_a_replica
        is_mine = draft.rollout_index % each == rank() % each
        if self.reference_pass is not None and is_mine:
            self.reference_pass.add(draft.key, draft.prompt.token_ids, response_ids)

    def run(self, progress: Progress) -> None:
        """Steps of the engine, and the reference's passes as they fall due, until all is done."""
        is_running = True
        while is_running:
            is_at_values = self.is_all_finished and self.sharing is not None
            progress.enter("values" if is_at_values else "rollout")
            is_running = self._step()
            progress.tick(self.sampler.engine)
            if self.reference_pass is not None and self.reference_pass.is_due(self.is_all_finished):
                progress.enter("logprobs")
                self.reference_pass.work()

    def _step(self) -> bool:
        if self.sharing is not None:
            return self.sharing.step()
        engine = self.sampler.engine
        if engine.num_unfinished:
            engine.step()
        return bool(engine.num_unfinished)


def submit_greedy(
    sampler: Sampler, prompts_P: Sequence[Prompt], iteration: int
) -> dict[str, Draft]:
    """Queues a greedy response of every problem; what it returns fills as the engine runs."""
    found: dict[str, Draft] = {}

    def keep(draft: Draft) -> None:
        found[draft.prompt.problem.id] = draft

    greedy = SamplingConfig(temperature=0.0, top_p=1.0, max_tokens=sampler.sampling.max_tokens)
    at_zero = replace(sampler, sampling=greedy)
    submit_rollouts(at_zero, prompts_P, 1, iteration, "greedy", keep)
    return found
