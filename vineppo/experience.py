"""What an iteration learns from: rollouts with their log-probabilities, values and advantages.

`train.py` calls, in this order, `sample`, `add_logprobs`, `add_values`, `add_advantages`; each adds
columns to the rollouts.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch

from vineppo.config.schema import SamplingConfig, TrainConfig
from vineppo.credit import Credit, token_advantages
from vineppo.credit.shaping import add_update_columns, has_equal_rewards, shaped_rewards
from vineppo.credit.vine import step_means
from vineppo.distributed import deal, gather, num_replicas, rank, replica
from vineppo.errors import InterruptionError, SharedError
from vineppo.forward_passes import EntropyPass, ReferencePass, RolloutKey, Rows, token_columns
from vineppo.interruption import awaited, interruption, raise_if_any
from vineppo.kl import KL_ESTIMATORS
from vineppo.metrics import predictor_metrics
from vineppo.policy import Policy
from vineppo.progress import Progress
from vineppo.rollouts import PendingRollouts, Prompt, Sampler, submit_rollouts
from vineppo.segment.token_texts import steps_of
from vineppo.token_scores import ForwardOptions, Reference, TokenScores
from vineppo.types import Rollout, StateValue
from vineppo.values import ValuePredictor, feeding_predictor
from vineppo.values.policy_pass import read_policy
from vineppo.values.predictor import StateKey
from vineppo.values.sampled import SampledStream

# Of a replica's rollouts, those that end first; nobody else samples their states.
EARLY = 0.5


@dataclass(frozen=True)
class Experience:
    """The rollouts of an iteration in the order of prompts, and what sampling them took besides.

    `drawn` are those that were sampled, of which `rollouts` are kept. `continuations` (or other
    samples) by predictor, their tokens and `greedy_tokens` (of greedy responses, which the
    estimator asked for) count over all replicas, and for all that was drawn.
    """

    rollouts: list[Rollout]
    drawn: list[Rollout]
    continuations: dict[str, int]
    value_tokens: int
    greedy_tokens: int

    @property
    def num_continuations(self) -> int:
        return sum(self.continuations.values())


@dataclass(frozen=True)
class _Share:
    """What one replica sampled: rollouts of its problems, and values of whichever states it got."""

    rollouts: dict[RolloutKey, Rollout]
    values: dict[str, dict[StateKey, StateValue]]  # by predictor
    greedy: dict[str, Rollout]
    ref_logprobs: dict[RolloutKey, tuple[float, ...]]


def sample(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    config: TrainConfig,
    predictors: Sequence[ValuePredictor],
    iteration: int,
    progress: Progress,
    reference_pass: ReferencePass | None,
    entropy_pass: EntropyPass | None = None,
) -> Experience:
    """Rollouts and continuations of all prompts, on every rank; the replicas share the work.

    Sets the steps, the values that are sampled, the greedy rewards, and "ref_logprobs" where a
    `ReferencePass` is given. Steps or cuts by entropies need an `EntropyPass`.
    """
    each = sampler.engine.ranks_a_replica
    mine_P = prompts_P[replica(each) :: num_replicas(each)]
    passes = reference_pass, entropy_pass
    stream = _Stream(sampler, config, predictors, iteration, *passes)
    share = stream.sample(mine_P, progress)
    progress.enter("values" if stream.streams else "rollout")  # the others are still at it
    everyone = gather(share)
    shares = everyone[::each]
    by_key = {key: rollout for share in shares for key, rollout in share.rollouts.items()}
    indices = range(config.rollouts.num_samples)
    rollouts = [by_key[prompt.problem.id, index] for prompt in prompts_P for index in indices]
    for predictor in predictors:
        if predictor.name in stream.streams:
            predictor.merge(rollouts, [share.values[predictor.name] for share in shares])
    greedy = {
        problem_id: rollout for share in shares for problem_id, rollout in share.greedy.items()
    }
    ref_logprobs = {key: row for share in everyone for key, row in share.ref_logprobs.items()}
    for rollout in rollouts:
        rollout.values_from = feeding_predictor(config)
        if rollout.problem.id in greedy:
            rollout.greedy_reward = greedy[rollout.problem.id].reward
        if reference_pass is not None:
            rollout.tokens_T["ref_logprobs"] = ref_logprobs[rollout.key]
    values = {
        name: [value for share in shares for value in share.values[name].values()]
        for name in stream.streams
    }
    return Experience(
        rollouts,
        rollouts,
        continuations={
            n: sum(len(value.returns_K) for value in states) for n, states in values.items()
        },
        value_tokens=sum(value.num_tokens for states in values.values() for value in states),
        greedy_tokens=sum(rollout.num_actions for rollout in greedy.values()),
    )


def sample_varied(
    draw: Callable[[Sequence[int]], Experience],
    order: Sequence[int],
    num_prompts: int,
    max_redraws: int,
) -> Experience:
    """`num_prompts` problems whose rollouts' rewards differ, as far as they are found.

    DAPO's dynamic sampling (arXiv:2503.14476, eq. 11). `draw` samples problems by index: the first
    `num_prompts` of `order`, then at most `max_redraws` times the next ones, as many as give what
    is missing where as large a share differs as did so far. What is missing in the end are the
    first of those with equal rewards. Of what is kept the order is that of `order`.
    """
    taken, count = 0, num_prompts
    parts: list[Experience] = []
    groups: list[list[Rollout]] = []
    while count > 0:
        parts.append(draw(order[taken : taken + count]))
        taken += count
        groups += [list(g) for _, g in groupby(parts[-1].rollouts, lambda r: r.problem.id)]
        num_varied = sum(not has_equal_rewards(group) for group in groups)
        missing = num_prompts - num_varied
        if missing <= 0 or len(parts) > max_redraws:
            break
        wanted = math.ceil(missing * taken / num_varied) if num_varied else num_prompts
        count = min(wanted, num_prompts, len(order) - taken)
    by_worth = sorted(range(len(groups)), key=lambda i: has_equal_rewards(groups[i]))
    kept = [rollout for i in sorted(by_worth[:num_prompts]) for rollout in groups[i]]
    continuations = Counter[str]()
    for part in parts:
        continuations.update(part.continuations)
    return Experience(
        kept,
        [rollout for group in groups for rollout in group],
        continuations,
        sum(part.value_tokens for part in parts),
        sum(part.greedy_tokens for part in parts),
    )


class _Stream:
    """The running engine of a replica, and what becomes of the rollouts that finish in it.

    A rollout is cut into steps when it finishes, or as soon as an `EntropyPass` has been, and its
    states join the engine. The reference's passes and the graders' work go on meanwhile. What is
    submitted when depends on the engine's steps alone, never on the clock or on a grader, so that a
    repeated run batches alike.

    Several replicas exchange states once, when their rollouts have ended: those of the rollouts
    that ended last, but for s_0, which the rollouts of a problem share. Samples depend on their
    seeds alone, not on who draws them.
    """

    def __init__(
        self,
        sampler: Sampler,
        config: TrainConfig,
        predictors: Sequence[ValuePredictor],
        iteration: int,
        reference_pass: ReferencePass | None,
        entropy_pass: EntropyPass | None,
    ) -> None:
        self._sampler = sampler
        self._config = config
        self._iteration = iteration
        self._reference_pass = reference_pass
        self._entropy_pass = entropy_pass
        self._ranks_a_replica = sampler.engine.ranks_a_replica
        self._waiting: list[tuple[int, Rollout]] = []  # for the exchange, with their budgets
        self.streams: dict[str, SampledStream] = {
            predictor.name: predictor.open_stream(sampler, iteration)
            for predictor in predictors
            if predictor.is_sampled
        }

    def sample(self, prompts_P: Sequence[Prompt], progress: Progress) -> _Share:
        """Rollouts and the continuations of their states in one stream, without a barrier.

        The phase "rollout" lasts until the last rollout is done, "values" until the engine is idle,
        "grading" until the last grader has answered.
        """
        progress.enter("rollout")
        num_samples = self._config.rollouts.num_samples
        self._num_left = len(prompts_P) * num_samples
        is_lone = num_replicas(self._ranks_a_replica) == 1
        self._num_early = self._num_left if is_lone else int(EARLY * self._num_left)
        credit, seeds = self._config.credit, (self._iteration, "rollouts")
        pending = credit.submit(self._sampler, prompts_P, seeds, self._add)
        if pending is None:
            pending = submit_rollouts(
                self._sampler, prompts_P, num_samples, seeds, self._add, with_logprobs=True
            )
        greedy = self._submit_greedy(prompts_P)
        try:
            self._run(progress)
        except InterruptionError:
            if self._reference_pass is not None:
                self._reference_pass.wait()  # its model may be the one that is saved now
            raise
        progress.enter("logprobs")
        ref_logprobs = {} if self._reference_pass is None else self._reference_pass.finish()
        progress.enter("grading")
        return _Share(
            rollouts=pending.settle(awaited),
            values={name: stream.settle() for name, stream in self.streams.items()},
            greedy={
                problem_id: rollout for (problem_id, _), rollout in greedy.settle(awaited).items()
            },
            ref_logprobs=ref_logprobs,
        )

    def _add(self, rollout: Rollout) -> None:
        """Hands a finished rollout to all who work on it."""
        self._num_left -= 1
        if self._entropy_pass is None:
            self._cut(rollout)
        else:
            self._entropy_pass.add(rollout)
        # Ranks that share a replica have the same rollouts, and share the reference's passes too.
        each = self._ranks_a_replica
        if self._reference_pass is not None and rollout.rollout_index % each == rank() % each:
            self._reference_pass.add(rollout)

    def _cut(self, rollout: Rollout) -> None:
        """Into steps, whose states are then sampled."""
        segmenter = self._config.credit.segmenter
        rollout.spans_S = steps_of(rollout, segmenter, self._sampler.tokenizer)
        streams = self.streams.values()
        for stream in streams:
            stream.submit(rollout, 0, 1)
        if self._num_early > 0:
            self._num_early -= 1
            self._sample_later_states(rollout)
        elif budget := sum(stream.budget(rollout, 1) for stream in streams):
            self._waiting.append((budget, rollout))

    def _sample_later_states(self, rollout: Rollout) -> None:
        for stream in self.streams.values():
            stream.submit(rollout, 1)

    def _submit_greedy(self, prompts_P: Sequence[Prompt]) -> PendingRollouts:
        """A greedy response of every problem, where the estimator asks for one."""
        if not self._config.credit.samples_greedy:
            return PendingRollouts()
        max_tokens = self._sampler.sampling.max_tokens
        greedy = SamplingConfig(temperature=0.0, top_p=1.0, max_tokens=max_tokens)
        at_zero = replace(self._sampler, sampling=greedy)
        return submit_rollouts(at_zero, prompts_P, 1, (self._iteration, "greedy"))

    def _run(self, progress: Progress) -> None:
        """Until all is sampled, on all ranks, or one of them was asked to end."""
        while self._num_left and not self._is_asked_to_end:
            self._step(progress)
        if self.streams:
            self._exchange()
        while self._sampler.is_busy and not self._is_asked_to_end:
            self._step(progress)
        raise_if_any(gather(interruption()))

    @property
    def _is_asked_to_end(self) -> bool:
        """Ranks that share a replica must make the same steps, so they end where all ranks meet."""
        return self._ranks_a_replica == 1 and interruption() is not None

    def _step(self, progress: Progress) -> None:
        """A step of the engine, and the passes over rollouts that are due."""
        reference_pass, entropy_pass = self._reference_pass, self._entropy_pass
        progress.enter("values" if self.streams and not self._num_left else "rollout")
        self._sampler.step()
        progress.tick(self._sampler.engine)
        if entropy_pass is not None and entropy_pass.is_due(not self._num_left):
            progress.enter("logprobs")
            if reference_pass is not None:
                reference_pass.wait()  # of a policy with adapters it is the same model
            for rollout in entropy_pass.work():
                self._cut(rollout)
        if reference_pass is not None and reference_pass.is_due(not self._num_left):
            progress.enter("logprobs")
            reference_pass.work()

    def _exchange(self) -> None:
        """The states that wait go to the replicas that have least left to sample."""
        budget = sum(stream.budget_left for stream in self.streams.values())
        everyone = gather((interruption(), budget, self._waiting))
        raise_if_any(asked for asked, _, _ in everyone)
        _, budgets, waiting = zip(*everyone[:: self._ranks_a_replica], strict=True)
        items = [item for of_replica in waiting for item in of_replica]
        owners = deal(budgets, [budget for budget, _ in items])
        for owner, (_, rollout) in zip(owners, items, strict=True):
            if owner == replica(self._ranks_a_replica):
                self._sample_later_states(rollout)


def add_logprobs(
    rollouts: Sequence[Rollout],
    policy: Policy,
    reference: Reference | None,
    predictors: Sequence[ValuePredictor],
    config: TrainConfig,
) -> None:
    """Sets the columns "trainer_logprobs", "ref_logprobs" and "kl", which is raw.

    Without a reference the first alone; where a `ReferencePass` has been, it does not pass again.
    The predictors that read the policy's pass set their values.
    """
    size, temperature = config.optimization.logprobs_micro_batch_size, config.sampling.temperature
    is_exact = config.reference.kl_estimator == "full"
    options = ForwardOptions(temperature, reference=reference if is_exact else None)

    def columns_of(scores: TokenScores) -> list[torch.Tensor]:
        """Only what these options fill: every further tensor is brought to the host for nothing."""
        exact = [scores.kl_BT, scores.ref_logprobs_BT] if is_exact else []
        return [scores.logprobs_BT, *exact]

    trainer, *exact = read_policy(
        rollouts, predictors, policy.scores, options, columns_of, size, policy.device,
        policy.packs,
    )  # fmt: skip
    _set(rollouts, "trainer_logprobs", trainer)
    if is_exact:
        _set(rollouts, "kl", exact[0])
        _set(rollouts, "ref_logprobs", exact[1])
        return
    if config.reference.kl_estimator is None:
        return
    if any("ref_logprobs" not in rollout.tokens_T for rollout in rollouts):
        assert reference is not None
        (logprobs,) = token_columns(
            lambda batch: (reference.logprobs(batch, temperature),),
            rollouts, size, policy.device, packs=reference.packs,
        )  # fmt: skip
        _set(rollouts, "ref_logprobs", logprobs)
    estimate = KL_ESTIMATORS[config.reference.kl_estimator]
    for rollout in rollouts:
        now, then = (rollout.tokens_T[name] for name in ("trainer_logprobs", "ref_logprobs"))
        rollout.tokens_T["kl"] = tuple(estimate(torch.tensor(now), torch.tensor(then)).tolist())


def _set(rollouts: Sequence[Rollout], column: str, rows: Rows) -> None:
    for rollout, row in zip(rollouts, rows, strict=True):
        rollout.tokens_T[column] = row


def check_logprob_gap(rollouts: Sequence[Rollout], config: TrainConfig) -> None:
    """Raises `UserError` where engine and trainer disagree by more than `max_logprob_gap` allows.

    The trainer has just scored the sampled tokens by the weights that the engine should have
    sampled them from: stale weights and stale cached prefixes show here, and so does NaN. With
    `sampling.top_p` < 1 the engine's may be larger by up to −log top_p, the nucleus's mass.
    """
    bound = config.optimization.max_logprob_gap
    if bound is None:
        return
    most_above = bound - math.log(config.sampling.top_p)
    for rollout in rollouts:
        engine_T = torch.tensor(rollout.logprobs_T, dtype=torch.float64)
        above_T = engine_T - torch.tensor(rollout.tokens_T["trainer_logprobs"])
        beyond = (~((-bound <= above_T) & (above_T <= most_above))).nonzero()
        if len(beyond):
            token = int(beyond[0])
            raise SharedError(
                f"engine and trainer differ by {above_T[token].abs():.2g} in a log-probability "
                f"(problem {rollout.problem.id}, rollout {rollout.rollout_index}, token {token}), "
                f"more than optimization.max_logprob_gap {bound:g}: the engine's weights or cached "
                "prefixes are stale, or null is the key's value for its precision; the same "
                "command goes on from the last checkpoint"
            )


def add_values(rollouts: Sequence[Rollout], predictors: Sequence[ValuePredictor]) -> None:
    """Sets the values of those predictors that neither sample nor ride on the policy's pass.

    The sampled ones came with `sample`, those of a head on the policy with `add_logprobs`.
    """
    for predictor in predictors:
        predictor.estimate(rollouts)
        predictor.estimate_after(rollouts)


def add_advantages(
    rollouts: Sequence[Rollout],
    predictors: Sequence[ValuePredictor],
    config: TrainConfig,
    kl_coef: float,
) -> None:
    """Credit: sets "rewards", raw "advantages" of tokens and steps, and what the update reads."""
    for rollout in rollouts:
        kl_T = rollout.tokens_T.get("kl", (0.0,) * len(rollout.response_ids))
        rollout.tokens_T["rewards"] = shaped_rewards(rollout.reward, kl_T, config, kl_coef)
    for _, group in groupby(rollouts, key=lambda rollout: rollout.problem.id):
        rollouts_G = list(group)
        advantages_GT = token_advantages(config.credit, rollouts_G)
        for rollout, advantages_T in zip(rollouts_G, advantages_GT, strict=True):
            rollout.tokens_T["advantages"] = advantages_T
            rollout.steps_S["advantages"] = step_means(advantages_T, rollout.action_spans_S)
    add_update_columns(rollouts, config)
    for predictor in predictors:
        predictor.prepare_update(rollouts)


def value_quality(
    rollouts: Sequence[Rollout], predictors: Sequence[ValuePredictor], config: TrainConfig
) -> dict[str, float]:
    """`NAME/…` of `predictor_metrics` on the actual rewards to go, for all but the continuations.

    Of tokens, or of steps where a predictor values those.
    """
    metrics = {}
    for predictor in predictors:
        if predictor.name in rollouts[0].returns_S:
            continue
        by_problem = [
            _values_and_returns(predictor, config.credit, group)
            for _, group in groupby(rollouts, key=lambda rollout: rollout.problem.id)
        ]
        for name, number in predictor_metrics(*zip(*by_problem, strict=True)).items():
            metrics[f"{predictor.metrics_group}/{name}"] = number
    return metrics


def _values_and_returns(
    predictor: ValuePredictor, credit: Credit, rollouts: Iterable[Rollout]
) -> tuple[list[float], list[float]]:
    """Of the states that the predictor values."""
    values: list[float] = []
    returns: list[float] = []
    for rollout in rollouts:
        returns_T = credit.returns(rollout)
        if predictor.gives == "tokens":
            values += rollout.of_actions(rollout.values_T(predictor.name))
            returns += rollout.of_actions(returns_T)
        else:
            values += rollout.values_S(predictor.name)
            returns += [returns_T[span.start] for span in rollout.spans_S]
    return values, returns
