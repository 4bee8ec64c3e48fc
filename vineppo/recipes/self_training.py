"""Without reinforcement learning: a policy fine-tuned on its own answers, again and again.

RestEM (arXiv:2312.06585) is expectation–maximisation of the probability of a right answer. E:
sample responses with the current policy. M: from the starting policy, maximise the likelihood of
the right ones,

    L = −Σ_{y right} log π(y | x) / tokens

DPO-positive (arXiv:2402.13228) takes pairs of a right y and a wrong y' of a problem, with the
policy π_0 that the iteration starts training from:

    L = −log σ(z),  z = β (log π(y)/π_0(y) − log π(y')/π_0(y') − λ max(0, log π_0(y)/π(y)))

By steps (Step-DPO, arXiv:2406.18629), y and y' are single steps: a right and a wrong response
with one beginning part there. Half of the responses then continue from a random step of another.
The reward of one response labels the step; Step-DPO has a judge.

Validation problems choose the epoch; without them it is the last. There are no values and no
advantages, so this is what any credit has to beat.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, groupby, takewhile
from math import ceil, exp, fsum, log1p
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field

from vineppo.batching import grouped_minibatches
from vineppo.checkpoint import Models, remove_whole, write_whole
from vineppo.config.require import require
from vineppo.config.schema import FineTuning, SftConfig
from vineppo.config.schema.scalars import Count, CountOrZero, NonNegative, Positive
from vineppo.deepspeed_module import Summand
from vineppo.distributed import from_main, gather, is_main, num_replicas, replica
from vineppo.encoding import encode_problems
from vineppo.engine import Completion
from vineppo.evaluate import evaluate_policy
from vineppo.forward_passes import token_columns
from vineppo.metrics import reward_metrics
from vineppo.plugins import Plugin
from vineppo.policy import Policy
from vineppo.recipes.sft import open_run, update_by, update_on
from vineppo.rollouts import (
    Continuation,
    Prompt,
    State,
    submit_continuations,
    submit_rollouts,
)
from vineppo.seeds import derive_seed, problems_of_iteration
from vineppo.segment import Segmenter
from vineppo.segment.token_texts import steps_of
from vineppo.session import Session, is_finished, open_session
from vineppo.tasks import load_task
from vineppo.token_scores import ForwardOptions, TokenScores
from vineppo.types import Rollout, StepSpan, TokenSequence, TrainBatch


@dataclass(frozen=True)
class Likelihood:
    """−log π of the right responses."""

    kind: Literal["likelihood"]


@dataclass(frozen=True)
class DpoPositive:
    """DPO-positive on pairs of a right and a wrong response of a problem."""

    kind: Literal["dpo_positive"]
    beta: Positive
    penalty: NonNegative  # λ, of a right response that becomes less likely; 0: DPO
    # null: whole responses; else the step where they part
    segmenter: Annotated[Segmenter, Plugin("segmenter")] | None = None


@dataclass(frozen=True, kw_only=True)
class SelfTraining(FineTuning):
    """The demonstrations are the policy's own responses."""

    num_iterations: Count  # each samples, and trains on what was right
    num_prompts: Count  # train problems of an iteration
    num_samples: Count  # responses of each
    most_right: Count  # trained on of a problem, each with a wrong one where there are pairs
    num_validation: CountOrZero  # train problems kept for choosing the epoch; 0: the last
    restart: bool  # every iteration trains the starting policy; false: the one before it
    loss: Annotated[Likelihood | DpoPositive, Field(discriminator="kind")]

    def check(self, key: str, config: Any) -> None:
        require(
            config.model.path is not None,
            f"model.path must name a policy with {key} (a new model has no right answers)",
        )

    def train(self, config: SftConfig, directory: Path) -> None:
        self_train(config, self, directory)


Example = tuple[TokenSequence, ...]  # a right response, or one and a wrong one
Steps = Callable[[Rollout], Sequence[StepSpan]]
START, BEST = "start", "best"  # states of the models, in the run's directory


def self_train(config: SftConfig, settings: SelfTraining, directory: Path) -> None:
    """Runs `config` to its end in `directory`; an iteration is one E and one M."""
    if is_finished(config, directory):
        return
    task = load_task(config.task)
    check_num_problems(settings, len(task.train_P))
    run, loaded = open_run(config, directory)
    prompts_P = encode_problems(config, loaded, task.train_P, config.task.too_long)
    check_num_problems(settings, len(prompts_P))  # those too long for the model may be left out
    num_validation = settings.num_validation
    validation_P, train_P = prompts_P[:num_validation], prompts_P[num_validation:]
    test_P = encode_problems(config, loaded, task.test_P)
    steps: Steps | None = None
    if settings.loss.kind == "dpo_positive" and settings.loss.segmenter is not None:
        steps = partial(steps_of, segmenter=settings.loss.segmenter, tokenizer=loaded.tokenizer)

    def start_models() -> Models:
        return Models(Policy(loaded, config.optimization, config.model.gradient_checkpointing))

    with open_session(
        config, settings.num_iterations, run, test_P, loaded, start_models
    ) as session:
        if not from_main((run.path / START).exists):
            session.sampler.engine.sleep()
            write_whole(run.path / START, session.models.save_state)
            session.wake_engine(with_new_weights=False)
        for iteration in session.iterations():
            chosen = problems_of_iteration(
                len(train_P), settings.num_prompts, iteration, config.seed
            )
            rollouts, num_tokens = sample(
                session, settings, [train_P[i] for i in chosen], iteration, steps
            )
            examples = examples_of(rollouts, settings, steps)
            metrics = {
                **reward_metrics(rollouts),
                "tokens/rollout": num_tokens,
                "self_training/examples": len(examples),
                **session.sampling_metrics(),
            }
            if examples:
                metrics |= maximise(session, config, settings, validation_P, examples, iteration)
            metrics |= session.evaluate_if_due(iteration)
            session.finish_iteration(iteration, metrics)
        for name in (START, BEST):
            if is_main() and (run.path / name).exists():
                remove_whole(run.path / name)


def check_num_problems(settings: SelfTraining, num_problems: int) -> None:
    require(
        settings.num_prompts + settings.num_validation <= num_problems,
        "self_training.num_prompts and num_validation must together be at most the "
        f"{num_problems} train problems, got {settings.num_prompts} + {settings.num_validation}",
    )


def sample(
    session: Session,
    settings: SelfTraining,
    prompts_P: Sequence[Prompt],
    iteration: int,
    steps: Steps | None,
) -> tuple[list[Rollout], int]:
    """`num_samples` responses of every prompt, and the tokens that were sampled, on every rank.

    The replicas share the work. With `steps` the later half continue the earlier half's responses,
    each from the start of a random step.
    """
    session.progress.enter("rollout")
    sampler = session.sampler
    each = sampler.engine.ranks_a_replica
    mine_P = prompts_P[replica(each) :: num_replicas(each)]
    by_problem = {prompt.problem.id: prompt for prompt in mine_P}
    num_branches = settings.num_samples // 2 if steps else 0
    num_whole = settings.num_samples - num_branches
    num_shared = 0

    def branch(rollout: Rollout) -> None:
        nonlocal num_shared
        if steps is None or rollout.rollout_index >= num_branches:
            return
        name = (iteration, "branch", *rollout.key)
        starts = [step.start for step in steps(rollout)]
        cut = Random(derive_seed(sampler.seed, *name)).choice(starts) if starts else 0
        num_shared += cut

        def finish(continuation: Continuation) -> None:
            whole = continued(rollout, cut, continuation.completion)
            index = num_whole + rollout.rollout_index
            pending.add(replace(whole, rollout_index=index), continuation.reward)

        state = State(by_problem[rollout.problem.id], rollout.response_ids[:cut])
        submit_continuations(sampler, state, range(1), name, finish, with_logprobs=True)

    stream = (iteration, "rollout")
    pending = submit_rollouts(sampler, mine_P, num_whole, stream, branch, steps is not None)
    sampler.finish(lambda: session.progress.tick(sampler.engine))
    shares = gather((pending.settle(), num_shared))[::each]
    by_key = {key: rollout for share, _ in shares for key, rollout in share.items()}
    indices = range(settings.num_samples)
    rollouts = [by_key[prompt.problem.id, index] for prompt in prompts_P for index in indices]
    num_tokens = sum(len(rollout.response_ids) for rollout in rollouts)
    return rollouts, num_tokens - sum(num_shared for _, num_shared in shares)


def continued(rollout: Rollout, cut: int, end: Completion) -> Rollout:
    """The rollout with another end after its first `cut` tokens."""
    return replace(
        rollout,
        response_ids=(*rollout.response_ids[:cut], *end.token_ids),
        logprobs_T=(*rollout.logprobs_T[:cut], *end.logprobs_T),
        finish_reason=end.finish_reason,
    )


def examples_of(
    rollouts: Sequence[Rollout], settings: SelfTraining, steps: Steps | None = None
) -> list[Example]:
    """The first `most_right` right responses of each problem, each once.

    For pairs, each comes with a wrong one, in turn; with `steps`, the steps where they part. Right
    is a reward above 0.5, as in evaluations; a right response that was cut off does not count.
    Right a, b, a and wrong c give (a), (b), or the pairs (a, c), (b, c).
    """
    found: list[Example] = []
    for _, group in groupby(rollouts, key=lambda rollout: rollout.problem.id):
        right: dict[tuple[int, ...], Rollout] = {}
        wrong: dict[tuple[int, ...], Rollout] = {}
        for rollout in group:
            if rollout.reward <= 0.5:
                wrong[rollout.response_ids] = rollout
            elif rollout.finish_reason == "stop":
                right[rollout.response_ids] = rollout
        chosen = list(right.values())[: settings.most_right]
        if settings.loss.kind == "likelihood":
            found += [(_tokens(rollout),) for rollout in chosen]
        elif wrong and steps is not None:
            found += [parting(rollout, wrong.values(), steps) for rollout in chosen]
        elif wrong:
            pairs = zip(chosen, cycle(wrong.values()), strict=False)
            found += [(_tokens(one), _tokens(other)) for one, other in pairs]
    return found


def parting(right: Rollout, wrong: Iterable[Rollout], steps: Steps) -> Example:
    """The steps where a right response parts from the wrong one that it follows longest.

    Their prompt is all before. The steps ab, cd of the right and ab, ce, fg of the wrong response
    give (cd, ce).
    """

    def num_shared(rollout: Rollout) -> int:
        pairs = zip(right.response_ids, rollout.response_ids, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    other = max(wrong, key=num_shared)
    spans = [steps(right), steps(other)]
    edge = num_shared(other)
    start = max({s.start for s in spans[0] if s.start <= edge} & {s.start for s in spans[1]})
    ends = [next((s.end for s in part if s.end > edge), part[-1].end) for part in spans]
    pair = zip((right, other), ends, strict=True)
    return tuple(_tokens(rollout, start, end) for rollout, end in pair)


def _tokens(rollout: Rollout, start: int = 0, end: int | None = None) -> TokenSequence:
    ids = rollout.response_ids
    return TokenSequence((*rollout.prompt_ids, *ids[:start]), ids[start:end])


def maximise(
    session: Session,
    config: SftConfig,
    settings: SelfTraining,
    validation_P: Sequence[Prompt],
    examples: Sequence[Example],
    iteration: int,
) -> dict[str, float]:
    """Trains on the examples; the policy is then that of the epoch with most validation.

    pass@1 is by the samples and the temperature of `evaluation`; the first of equal epochs wins.
    Without validation problems it is the last epoch's. The engine keeps it.
    """
    optimization, best = config.optimization, session.run.path / BEST
    session.sampler.engine.sleep()
    if settings.restart:
        session.models.load_state(session.run.path / START)
    pairs = None
    if settings.loss.kind == "dpo_positive":
        pairs = Pairs(session, config, settings.loss, examples)
    skipped_key = f"{'sft' if pairs is None else 'self_training'}/skipped_updates"
    metrics: dict[str, float] = {}
    num_skipped = 0.0
    scores: list[float] = []
    for epoch in range(optimization.num_epochs):
        for metrics in updates(session, config, examples, pairs, iteration, epoch):
            num_skipped += metrics[skipped_key]
        if validation_P:
            stream = iteration * optimization.num_epochs + epoch
            scores.append(validation_score(session, config, validation_P, stream))
            if scores[-1] > max(scores[:-1], default=-1.0):
                if is_main() and best.exists():
                    remove_whole(best)
                write_whole(best, session.models.save_state)
    metrics[skipped_key] = num_skipped
    if scores:
        session.models.load_state(best)
        metrics |= {
            "self_training/validation": max(scores),
            "self_training/epoch": float(scores.index(max(scores)) + 1),
        }
    session.wake_engine(with_new_weights=True)
    return metrics


def updates(
    session: Session,
    config: SftConfig,
    examples: Sequence[Example],
    pairs: "Pairs | None",
    iteration: int,
    epoch: int,
) -> Iterator[dict[str, float]]:
    """Trains for an epoch; the metrics of each update."""
    optimization = config.optimization
    per_epoch = ceil(len(examples) / optimization.batch_size)
    seed = derive_seed(config.seed, iteration, "own answers", epoch)
    minibatches = grouped_minibatches(range(len(examples)), optimization.batch_size, seed)
    for done, indices in enumerate(minibatches, epoch * per_epoch):
        if pairs is None:
            chosen = [sequence for i in indices for sequence in examples[i]]
            yield update_on(session, config, chosen, done, optimization.num_epochs * per_epoch)
        else:
            yield pairs.update(indices, done, optimization.num_epochs * per_epoch)


def validation_score(
    session: Session, config: SftConfig, validation_P: Sequence[Prompt], stream: int
) -> float:
    """pass@1; the engine sleeps before and after."""
    session.wake_engine(with_new_weights=True)
    session.progress.enter("evaluate")
    found = evaluate_policy(
        session.sampler, validation_P, config.evaluation, stream, session.progress
    )
    session.sampling_metrics()  # what follows is the next iteration's alone
    session.sampler.engine.sleep()
    return float(found["pass@1"])


class Pairs:
    """DPO-positive's updates, each of two passes: one for z, and by the chain rule one for

        ∂L/∂log π(y) = −σ(−z) β (1 + λ 1[π(y) < π_0(y)]),  ∂L/∂log π(y') = σ(−z) β

    so that y and y' need not share a micro-batch.
    """

    def __init__(
        self,
        session: Session,
        config: SftConfig,
        loss: DpoPositive,
        examples: Sequence[Example],
    ) -> None:
        self._session, self._config, self._loss = session, config, loss
        self._examples = examples
        flat = self.logprobs([sequence for pair in examples for sequence in pair])
        self._start_E2 = list(zip(flat[::2], flat[1::2], strict=True))

    def logprobs(self, sequences: Sequence[TokenSequence]) -> list[float]:
        """log π of whole responses."""
        policy, options = self._session.policy, ForwardOptions(temperature=1.0)
        (rows,) = token_columns(
            lambda batch: (policy.scores(batch, options).logprobs_BT,),
            sequences, self._config.optimization.micro_batch_size, policy.device,
        )  # fmt: skip
        return [fsum(row) for row in rows]

    def update(self, indices: Sequence[int], update: int, num_updates: int) -> dict[str, float]:
        """One step on the mean loss of the pairs."""
        self._session.progress.enter("update")
        flat = self.logprobs([sequence for i in indices for sequence in self._examples[i]])
        losses: list[float] = []
        weighted: list[TokenSequence] = []
        for i, now in zip(indices, zip(flat[::2], flat[1::2], strict=True), strict=True):
            value, slopes = dpo_positive(self._loss, now, self._start_E2[i])
            losses.append(value)
            weighted += [
                replace(
                    sequence,
                    tokens_T={"slope": (slope / len(indices),) * len(sequence.response_ids)},
                )
                for sequence, slope in zip(self._examples[i], slopes, strict=True)
            ]

        def loss(batch: TrainBatch, scores: TokenScores) -> Summand:
            total = (scores.logprobs_BT * batch["slope"]).sum()
            return total, {"loss": total}

        _, metrics = update_by(
            self._session, self._config, "self_training", loss, weighted, ("slope",), update,
            num_updates,
        )  # fmt: skip
        return metrics | {"self_training/loss": fmean(losses)}


def dpo_positive(
    loss: DpoPositive, now: tuple[float, float], start: tuple[float, float]
) -> tuple[float, tuple[float, float]]:
    """L of a pair, and ∂L/∂log π of the right and of the wrong response.

    With β = 1, λ = 1, log π = −2, −3 and log π_0 = −1, −3: z = (−1) − 0 − 1 = −2, L = log(1 + e²),
    slopes −2 σ(2) and σ(2).
    """
    right, wrong = (after - before for after, before in zip(now, start, strict=True))
    z = loss.beta * (right - wrong - loss.penalty * max(0.0, -right))
    share = 1 / (1 + exp(min(z, 700.0)))  # σ(−z)
    value = log1p(exp(-abs(z))) + max(0.0, -z)
    slope = loss.beta * share
    return value, (-slope * (1 + loss.penalty * (right < 0)), slope)
