"""The updates of an iteration: the policy's, and the critic's where it is a model of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

import torch

from vineppo.batching import collate, ranks_share, shuffled_minibatches
from vineppo.config.schema import AdamConfig, SeparateCritic, SharedCritic, TrainConfig
from vineppo.critic import SeparateValueModel
from vineppo.deepspeed_module import Update
from vineppo.distributed import num_ranks, rank
from vineppo.objectives import (
    UpdateSizes,
    policy_objective,
    shared_value_objective,
    value_objective,
)
from vineppo.policy import Policy
from vineppo.schedules import learning_rate
from vineppo.seeds import derive_seed
from vineppo.token_scores import ForwardOptions, Reference
from vineppo.types import TrainBatch, TrainSequence

Stats = list[dict[str, float]]


@dataclass(frozen=True)
class Minibatch:
    """One update: this rank's share of it, the sizes of the whole, the rate."""

    micro_batches: list[TrainBatch]
    sizes: UpdateSizes
    learning_rate: float


def minibatches(
    sequences: Sequence[TrainSequence],
    optimization: AdamConfig,
    config: TrainConfig,
    iteration: int,
    first_iteration: int,
    stream: str,
    device: torch.device,
) -> Iterator[Minibatch]:
    """The epochs of an iteration, cut into updates. Nothing is dropped: the last may be smaller.

    The learning rate's schedule runs from `first_iteration` to the run's last.
    """
    plan = [
        chosen
        for epoch in range(optimization.num_epochs)
        for chosen in shuffled_minibatches(
            len(sequences),
            optimization.batch_size,
            derive_seed(config.seed, iteration, stream, epoch),
        )
    ]
    done = (iteration - first_iteration) * len(plan)
    total = (config.num_iterations - first_iteration + 1) * len(plan)
    for number, indices in enumerate(plan):
        rate = learning_rate(
            done + number,
            total,
            optimization.learning_rate,
            optimization.warmup_fraction,
            optimization.schedule,
        )
        chosen = [sequences[i] for i in indices]
        yield Minibatch(
            micro_batches=micro_batches(chosen, optimization.micro_batch_size, device),
            sizes=UpdateSizes.of(chosen, config.sampling.max_tokens),
            learning_rate=rate,
        )


def micro_batches(
    sequences: Sequence[TrainSequence], micro_batch_size: int, device: torch.device
) -> list[TrainBatch]:
    """This rank's share, padded to similar lengths."""
    shares = ranks_share([len(s) for s in sequences], micro_batch_size, rank(), num_ranks())
    return [collate([sequences[i] for i in share], device) for share in shares]


def update_policy(
    policy: Policy,
    sequences: Sequence[TrainSequence],
    reference: Reference | None,
    config: TrainConfig,
    iteration: int,
    kl_coef: float,
) -> dict[str, float]:
    """Several epochs of clipped updates over shuffled minibatches; `policy/*` metrics.

    `policy/padding_frac` is the share of padding in this rank's passes.
    With a shared critic its loss joins, and its `critic/*`. An update whose mean ratio exceeds
    `max_mean_ratio`, or whose loss or gradient is not finite, is skipped and counted.
    """
    optimization, critic = config.optimization, config.critic
    has_exact_kl = config.reference.kl_estimator == "full" and config.reference.kl_in == "loss"
    options = ForwardOptions(
        config.sampling.temperature,
        reference=reference if has_exact_kl and kl_coef > 0 else None,
        has_entropy=True,
    )
    first = warmup_iterations(config) + 1
    accept = partial(is_sound, optimization.max_mean_ratio)
    updates: list[Update] = []
    rates: list[float] = []
    num_tokens = num_cells = 0
    for part in minibatches(
        sequences, optimization, config, iteration, first, "minibatches", policy.device
    ):
        num_tokens += sum(batch.num_tokens for batch in part.micro_batches)
        num_cells += sum(batch.token_ids_BT.numel() for batch in part.micro_batches)
        loss = partial(policy_objective, config, kl_coef, part.sizes)
        rates = [part.learning_rate]
        if isinstance(critic, SharedCritic):
            share = part.learning_rate / optimization.learning_rate
            rates.append(critic.head_learning_rate * share)
        updates.append(policy.update(part.micro_batches, loss, options, rates, accept))
    metrics = summarize(updates, "policy", ("loss", "clip_frac", "approx_kl", "entropy"), rates[0])
    metrics["policy/padding_frac"] = 1.0 - num_tokens / num_cells
    metrics["policy/ratio_max"] = max(s["ratio_max"] for u in updates for s in u.stats)
    if isinstance(critic, SharedCritic):
        metrics |= shared_critic_metrics(updates, rates[1])
    return metrics


def update_critic(
    critic: SeparateValueModel,
    sequences: Sequence[TrainSequence],
    config: TrainConfig,
    iteration: int,
) -> dict[str, float]:
    """The value model's own epochs over its own minibatches; `critic/*` metrics."""
    assert isinstance(config.critic, SeparateCritic)
    updates: list[Update] = []
    rate = 0.0
    for part in minibatches(
        sequences, config.critic, config, iteration, 1, "critic minibatches", critic.device
    ):
        loss = partial(value_objective, config.critic.loss, part.sizes)
        rate = part.learning_rate
        updates.append(critic.update(part.micro_batches, loss, rate, partial(is_sound, None)))
    return summarize(updates, "critic", ("loss", "clip_frac", "value_mean"), rate)


def warm_up_head(
    policy: Policy, sequences: Sequence[TrainSequence], config: TrainConfig, iteration: int
) -> dict[str, float]:
    """An iteration of a shared critic's warm-up: the head learns, the backbone stays as it is."""
    critic = config.critic
    assert isinstance(critic, SharedCritic)
    options = ForwardOptions(config.sampling.temperature, only_values=True)
    rates = [0.0, critic.head_learning_rate]
    updates: list[Update] = []
    for part in minibatches(
        sequences, config.optimization, config, iteration, 1, "minibatches", policy.device
    ):
        loss = partial(shared_value_objective, critic.loss, part.sizes)
        accept = partial(is_sound, None)
        updates.append(policy.update(part.micro_batches, loss, options, rates, accept))
    return shared_critic_metrics(updates, rates[1])


def warmup_iterations(config: TrainConfig) -> int:
    return config.critic.warmup_iterations if config.critic is not None else 0


def is_sound(max_mean_ratio: float | None, stats: Stats) -> bool:
    """Whether an update may be applied, by the numbers of all its micro-batches."""
    if not isfinite(sum(s["loss"] for s in stats)):
        return False
    return max_mean_ratio is None or sum(s["ratio_mean"] for s in stats) <= max_mean_ratio


def summarize(
    updates: Sequence[Update], group: str, names: Sequence[str], rate: float
) -> dict[str, float]:
    """Means over the updates of an iteration of what their micro-batches add up to."""
    metrics = {
        f"{group}/{name}": sum(s[name] for u in updates for s in u.stats) / len(updates)
        for name in names
    }
    norms = [update.grad_norm for update in updates if update.grad_norm is not None]
    return {
        **metrics,
        f"{group}/grad_norm": sum(norms) / len(norms) if norms else float("nan"),
        f"{group}/lr": rate,
        f"{group}/skipped_updates": len(updates) - len(norms),
    }


def shared_critic_metrics(updates: Sequence[Update], rate: float) -> dict[str, float]:
    """`critic/*` of a head in the policy's update, whose gradient norm is the whole update's."""
    named = [
        Update([{k.removeprefix("critic_"): x for k, x in s.items() if k.startswith("critic_")}
                for s in update.stats], update.grad_norm)
        for update in updates
    ]  # fmt: skip
    return summarize(named, "critic", ("loss", "clip_frac", "value_mean"), rate)
