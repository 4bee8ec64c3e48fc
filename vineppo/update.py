"""The updates of an iteration: those of predictors that train alone, and the policy's."""

from collections.abc import Sequence
from functools import partial

from vineppo.config.schema import TrainConfig
from vineppo.deepspeed_module import Summand, Update
from vineppo.minibatches import UpdateSizes, is_sound, minibatches, summarize
from vineppo.objectives import POLICY_COLUMNS, policy_objective
from vineppo.policy import Policy
from vineppo.token_scores import ForwardOptions, Reference, TokenScores
from vineppo.types import Rollout, TokenSequence, TrainBatch
from vineppo.values import ValuePredictor
from vineppo.values.heads import VALUE_NUMBERS


def update(
    rollouts: Sequence[Rollout],
    policy: Policy,
    predictors: Sequence[ValuePredictor],
    reference: Reference,
    config: TrainConfig,
    iteration: int,
    kl_coef: float,
) -> dict[str, float]:
    """All that trains; in a critic's warm-up the critic alone. The metrics of the updates."""
    metrics: dict[str, float] = {}
    for predictor in predictors:
        metrics |= predictor.update(rollouts, iteration)
    heads = [predictor for predictor in predictors if predictor.head is not None]
    if iteration > warmup_iterations(config):
        metrics |= update_policy(policy, rollouts, heads, reference, config, iteration, kl_coef)
    elif heads:
        metrics |= warm_up_head(policy, rollouts, heads[0], config, iteration)
    return metrics


def update_policy(
    policy: Policy,
    rollouts: Sequence[TokenSequence],
    heads: Sequence[ValuePredictor],
    reference: Reference | None,
    config: TrainConfig,
    iteration: int,
    kl_coef: float,
) -> dict[str, float]:
    """Several epochs of clipped updates over shuffled minibatches; `policy/*` metrics.

    `policy/padding_frac` is the share of padding in this rank's passes. `heads` are the predictors
    on the policy's backbone: their losses join, and their metrics. An update whose mean ratio
    exceeds `max_mean_ratio`, or whose loss or gradient is not finite, is skipped and counted.
    """
    optimization = config.optimization
    has_exact_kl = config.reference.kl_estimator == "full" and config.reference.kl_in == "loss"
    options = ForwardOptions(
        config.sampling.temperature,
        reference=reference if has_exact_kl and kl_coef > 0 else None,
        has_entropy=True,
    )
    columns = [*POLICY_COLUMNS, *(name for head in heads for name in head.update_columns)]
    accept = partial(is_sound, optimization.max_mean_ratio)
    updates: list[Update] = []
    rates: list[float] = []
    num_tokens = num_cells = 0
    for part in minibatches(
        rollouts, columns, optimization, config, iteration, warmup_iterations(config) + 1,
        "minibatches", policy.device,
    ):  # fmt: skip
        num_tokens += sum(batch.num_tokens for batch in part.micro_batches)
        num_cells += sum(batch.token_ids_BT.numel() for batch in part.micro_batches)
        loss = partial(policy_objective, config, kl_coef, heads, part.sizes)
        share = part.learning_rate / optimization.learning_rate
        rates = [part.learning_rate, *(head.head_learning_rate * share for head in heads)]
        updates.append(policy.update(part.micro_batches, loss, options, rates, accept))
    metrics = summarize(updates, "policy", ("loss", "clip_frac", "approx_kl", "entropy"), rates[0])
    metrics["policy/padding_frac"] = 1.0 - num_tokens / num_cells
    metrics["policy/ratio_max"] = max(s["ratio_max"] for u in updates for s in u.stats)
    for head, rate in zip(heads, rates[1:], strict=True):
        metrics |= head_metrics(updates, head, rate)
    return metrics


def warm_up_head(
    policy: Policy,
    rollouts: Sequence[TokenSequence],
    head: ValuePredictor,
    config: TrainConfig,
    iteration: int,
) -> dict[str, float]:
    """An iteration of a shared critic's warm-up: the head learns, the backbone stays as it is."""
    options = ForwardOptions(config.sampling.temperature, only_values=True)
    rates = [0.0, head.head_learning_rate]
    updates: list[Update] = []
    for part in minibatches(
        rollouts, head.update_columns, config.optimization, config, iteration, 1, "minibatches",
        policy.device,
    ):  # fmt: skip
        loss = partial(_head_loss, head, part.sizes)
        accept = partial(is_sound, None)
        updates.append(policy.update(part.micro_batches, loss, options, rates, accept))
    return head_metrics(updates, head, rates[1])


def warmup_iterations(config: TrainConfig) -> int:
    return config.critic.warmup_iterations if config.critic is not None else 0


def head_metrics(updates: Sequence[Update], head: ValuePredictor, rate: float) -> dict[str, float]:
    """Those of a head in the policy's update, whose gradient norm is the whole update's."""
    prefix = f"{head.name}/"
    named = [
        Update([{k.removeprefix(prefix): x for k, x in s.items() if k.startswith(prefix)}
                for s in update.stats], update.grad_norm)
        for update in updates
    ]  # fmt: skip
    return summarize(named, head.name, VALUE_NUMBERS, rate)


def _head_loss(
    head: ValuePredictor, sizes: UpdateSizes, batch: TrainBatch, scores: TokenScores
) -> Summand:
    joined = head.policy_loss(sizes, batch, scores)
    assert joined is not None, "a head has a loss"
    _, (total, numbers) = joined
    return total, {"loss": total} | {f"{head.name}/{name}": x for name, x in numbers.items()}
