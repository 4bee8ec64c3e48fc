"""The rollouts that an iteration learns from: log-probabilities, values and advantages."""

import math
from collections import ChainMap, Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from vineppo.config.schema import TrainConfig
from vineppo.credit import token_advantages
from vineppo.credit.vine import step_means
from vineppo.distributed import (
    awaited,
    deal,
    gather,
    interruption,
    num_replicas,
    raise_if_any,
    replica,
)
from vineppo.errors import InterruptionError, SharedError
from vineppo.losses import KL_ESTIMATORS, clamp
from vineppo.policy import Policy, Reference
from vineppo.progress import Progress
from vineppo.rollouts import PendingRollouts, Prompt, Sampler, submit_rollouts
from vineppo.segment import steps_of
from vineppo.token_scores import (
    ForwardOptions,
    RolloutKey,
    RolloutPass,
    Rows,
    TokenScores,
    token_columns,
)
from vineppo.types import Rollout, StateValue, by_problem
from vineppo.update import add_update_columns, has_equal_rewards
from vineppo.values import StateKey, ValuePredictor, feeding_predictor, read_policy
from vineppo.values.sampled import SampledStream

EARLY = 0.5  # share of a replica's rollouts, those that end first, whose states it samples itself


@dataclass(frozen=True)
class Experience:
    """The rollouts that an iteration keeps, in the order of prompts, and all that it has `drawn`.

    The counts are of what was drawn, on all replicas: `continuations` (or other samples) by
    predictor, their tokens, and the tokens of greedy responses.
    """

    rollouts: list[Rollout]
    drawn: list[Rollout]
    continuations: dict[str, int]
    value_tokens: int
    greedy_tokens: int

    @property
    def num_continuations(self) -> int:
        return sum(self.continuations.values())


# One replica's rollouts, the values of the states that it got by predictor, and greedy rollouts.
Share = tuple[
    dict[RolloutKey, Rollout], dict[str, dict[StateKey, StateValue]], dict[RolloutKey, Rollout]
]


def sample(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    config: TrainConfig,
    predictors: Sequence[ValuePredictor],
    iteration: int,
    progress: Progress,
    reference_pass: RolloutPass | None,
    entropy_pass: RolloutPass | None = None,
) -> Experience:
    """Rollouts and continuations of all prompts, on every rank; the replicas share the work.

    Sets the steps, sampled values, greedy rewards, and with a `reference_pass` "ref_logprobs".
    """
    each = sampler.engine.ranks_a_replica
    stream = _Stream(sampler, config, predictors, iteration, progress, reference_pass, entropy_pass)
    share = stream.sample(prompts_P[replica(each) :: num_replicas(each)])
    progress.enter("values" if stream.values else "rollout")  # the others are still at it
    rollouts_R, values_R, greedy_R = zip(*gather(share)[::each], strict=True)
    by_key, greedy = ChainMap(*rollouts_R), ChainMap(*greedy_R)
    indices = range(config.rollouts.num_samples)
    rollouts = [by_key[prompt.problem.id, index] for prompt in prompts_P for index in indices]
    for predictor in predictors:
        if predictor.name in stream.values:
            predictor.merge(rollouts, [found[predictor.name] for found in values_R])
    for rollout in rollouts:
        rollout.values_from = feeding_predictor(config)
        if greedy:
            rollout.greedy_reward = greedy[rollout.problem.id, 0].reward
    values = {
        name: [value for found in values_R for value in found[name].values()]
        for name in stream.values
    }
    return Experience(
        rollouts,
        rollouts,
        {name: sum(len(value.returns_K) for value in found) for name, found in values.items()},
        value_tokens=sum(value.num_tokens for found in values.values() for value in found),
        greedy_tokens=sum(sum(rollout.is_action_T) for rollout in greedy.values()),
    )


def sample_varied(
    draw: Callable[[Sequence[int]], Experience],
    order: Sequence[int],
    num_prompts: int,
    max_redraws: int,
) -> Experience:
    """`num_prompts` problems with unequal rewards among their rollouts, as far as they are found.

    DAPO's dynamic sampling (arXiv:2503.14476, eq. 11). After the first `num_prompts` of `order`,
    `draw` samples at most `max_redraws` times as many more as give what is missing at the share so
    far. The first problems with equal rewards fill the rest. The kept ones stay in `order`.
    """
    parts: list[Experience] = []
    taken, count = 0, num_prompts
    while count > 0:
        parts.append(draw(order[taken : taken + count]))
        taken += count
        groups = [group for part in parts for group in by_problem(part.rollouts)]
        num_varied = sum(not has_equal_rewards(group) for group in groups)
        missing = num_prompts - num_varied
        if missing <= 0 or len(parts) > max_redraws:
            break
        wanted = math.ceil(missing * taken / num_varied) if num_varied else num_prompts
        count = min(wanted, num_prompts, len(order) - taken)
    by_worth = sorted(range(len(groups)), key=lambda i: has_equal_rewards(groups[i]))
    return Experience(
        [rollout for i in sorted(by_worth[:num_prompts]) for rollout in groups[i]],
        [rollout for part in parts for rollout in part.rollouts],
        sum((Counter(part.continuations) for part in parts), Counter()),
        sum(part.value_tokens for part in parts),
        sum(part.greedy_tokens for part in parts),
    )


@dataclass
class _Stream:
    """The running engine of a replica, and what becomes of the rollouts that finish in it.

    The order of submissions depends on the engine's steps alone, never on a clock or a grader, so a
    repeated run batches alike. Samples depend on seeds, not on the replica that draws them.
    """

    sampler: Sampler
    config: TrainConfig
    predictors: Sequence[ValuePredictor]
    iteration: int
    progress: Progress
    reference_pass: RolloutPass | None
    entropy_pass: RolloutPass | None

    def __post_init__(self) -> None:
        self._each = self.sampler.engine.ranks_a_replica
        self._waiting: list[tuple[int, Rollout]] = []  # for the exchange, with their budgets
        self.values: dict[str, SampledStream] = {
            predictor.name: predictor.open_stream(self.sampler, self.iteration)
            for predictor in self.predictors
            if predictor.is_sampled
        }

    def sample(self, prompts_P: Sequence[Prompt]) -> Share:
        """Rollouts and the continuations of their states in one stream, without a barrier."""
        self.progress.enter("rollout")
        sampler, credit, seeds = self.sampler, self.config.credit, (self.iteration, "rollouts")
        num_samples = self.config.rollouts.num_samples
        self._num_left = len(prompts_P) * num_samples
        is_lone = num_replicas(self._each) == 1
        self._num_early = self._num_left if is_lone else int(EARLY * self._num_left)
        pending = credit.submit(sampler, prompts_P, seeds, self._add) or submit_rollouts(
            sampler, prompts_P, num_samples, seeds, self._add, with_logprobs=True
        )
        greedy = PendingRollouts()
        if credit.samples_greedy:
            at_zero = replace(sampler, sampling=replace(sampler.sampling, temperature=0.0))
            greedy = submit_rollouts(at_zero, prompts_P, 1, (self.iteration, "greedy"))
        try:
            self._run()
        except InterruptionError:
            if self.reference_pass is not None:
                self.reference_pass.wait()  # its model may be the one that is saved now
            raise
        self.progress.enter("logprobs")
        if self.reference_pass is not None:
            self.reference_pass.work()
            self.reference_pass.wait()
        self.progress.enter("grading")
        rollouts = pending.settle(awaited)
        values = {name: stream.settle() for name, stream in self.values.items()}
        return rollouts, values, greedy.settle(awaited)

    def _add(self, rollout: Rollout) -> None:
        self._num_left -= 1
        if self.entropy_pass is None:
            self._cut(rollout)
        else:
            self.entropy_pass.add(rollout)
        if self.reference_pass is not None:
            self.reference_pass.add(rollout)

    def _cut(self, rollout: Rollout) -> None:
        """Cuts into steps and samples their states; all but s_0 may wait for the exchange."""
        rollout.spans_S = steps_of(rollout, self.config.credit.segmenter, self.sampler.tokenizer)
        self._sample_states(rollout, 0, 1)
        if self._num_early > 0:
            self._num_early -= 1
            self._sample_states(rollout, 1)
        elif budget := sum(stream.budget(rollout, 1) for stream in self.values.values()):
            self._waiting.append((budget, rollout))

    def _sample_states(self, rollout: Rollout, first: int, end: int | None = None) -> None:
        for stream in self.values.values():
            stream.submit(rollout, first, end)

    def _run(self) -> None:
        """Steps until all is sampled on all ranks, or one of them was asked to end."""
        while self._num_left and not self._is_asked_to_end:
            self._step()
        if self.values:
            self._exchange()
        while self.sampler.is_busy and not self._is_asked_to_end:
            self._step()
        raise_if_any(gather(interruption()))

    @property
    def _is_asked_to_end(self) -> bool:
        """Ranks that share a replica must make the same steps, so they end where all ranks meet."""
        return self._each == 1 and interruption() is not None

    def _step(self) -> None:
        """A step of the engine, and the passes over rollouts that are due."""
        reference_pass, entropy_pass = self.reference_pass, self.entropy_pass
        self.progress.enter("values" if self.values and not self._num_left else "rollout")
        self.sampler.step()
        self.progress.tick(self.sampler.engine)
        if entropy_pass is not None and entropy_pass.is_due(not self._num_left):
            self.progress.enter("logprobs")
            if reference_pass is not None:
                reference_pass.wait()  # of a policy with adapters it is the same model
            for rollout in entropy_pass.work():
                self._cut(rollout)
        if reference_pass is not None and reference_pass.is_due(not self._num_left):
            self.progress.enter("logprobs")
            reference_pass.work()

    def _exchange(self) -> None:
        """The states that wait go to the replicas that have least left to sample."""
        budget = sum(stream.budget_left for stream in self.values.values())
        everyone = gather((interruption(), budget, self._waiting))
        raise_if_any(asked for asked, _, _ in everyone)
        _, budgets, waiting = zip(*everyone[:: self._each], strict=True)
        items = [item for of_replica in waiting for item in of_replica]
        owners = deal(budgets, [budget for budget, _ in items])
        for owner, (_, rollout) in zip(owners, items, strict=True):
            if owner == replica(self._each):
                self._sample_states(rollout, 1)


def add_logprobs(
    rollouts: Sequence[Rollout],
    policy: Policy,
    reference: Reference | None,
    predictors: Sequence[ValuePredictor],
    config: TrainConfig,
) -> None:
    """Sets "trainer_logprobs", with a reference "ref_logprobs" and the raw "kl", heads' values."""
    size, temperature = config.optimization.logprobs_micro_batch_size, config.sampling.temperature
    is_exact = config.reference.kl_estimator == "full"
    options = ForwardOptions(temperature, reference=reference if is_exact else None)

    def columns_of(scores: TokenScores) -> list[torch.Tensor]:
        """Only what these options fill, because every tensor is copied to the host."""
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

    Stale weights, stale cached prefixes and NaN show here.
    """
    bound = config.optimization.max_logprob_gap
    if bound is None:
        return
    # The engine renormalises over what is left: of top_p that much, of others one id in a million.
    sampling = config.sampling
    least_mass = 1e-6 if sampling.top_k is not None or sampling.min_p > 0 else sampling.top_p
    most_above = bound - math.log(least_mass)
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
    """Sets the values that came neither with `sample` nor, of a head, with `add_logprobs`."""
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
    for rollouts_G in by_problem(rollouts):
        advantages_GT = token_advantages(config.credit, rollouts_G)
        for rollout, advantages_T in zip(rollouts_G, advantages_GT, strict=True):
            rollout.tokens_T["advantages"] = advantages_T
            written_S = rollout.turns or rollout.spans_S
            rollout.steps_S["advantages"] = step_means(advantages_T, written_S)
    add_update_columns(rollouts, config)
    for predictor in predictors:
        predictor.prepare_update(rollouts)


def shaped_rewards(
    reward: float, kl_T: Sequence[float], config: TrainConfig, kl_coef: float
) -> tuple[float, ...]:
    """r_t = 1[t = T−1] R − kl_coef · clamp(KL̂_t), the KL where `reference.kl_in` is "reward"."""
    if config.reference.kl_in == "reward":
        penalty = clamp(torch.tensor(kl_T, dtype=torch.float64), config.reference.kl_clamp)
        rewards_T = [-kl_coef * kl for kl in penalty.tolist()]
    else:
        rewards_T = [0.0] * len(kl_T)
    rewards_T[-1] += reward
    return tuple(rewards_T)
