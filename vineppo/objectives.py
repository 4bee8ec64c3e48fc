"""What an update minimises: the summand of one micro-batch, normalised over the whole update."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vineppo.config.schema import (
    OptimizationConfig,
    ReferenceConfig,
    SharedCritic,
    TrainConfig,
)
from vineppo.critic.value_loss import ValueLoss, value_loss, values_of
from vineppo.deepspeed_module import Summand
from vineppo.kl import KL_ESTIMATORS, clamp, k3, with_k2_gradient
from vineppo.losses import Totals, aggregate, clipped_surrogate
from vineppo.token_scores import TokenScores
from vineppo.types import TrainBatch, TrainSequence


@dataclass(frozen=True)
class UpdateSizes:
    """Counts over all sequences of an update, on all ranks."""

    trained: Totals
    response_tokens: int
    positive_tokens: int

    @classmethod
    def of(cls, sequences: Sequence[TrainSequence], max_tokens: int) -> "UpdateSizes":
        trained = [sum(sequence.is_trained_T) for sequence in sequences]
        return cls(
            trained=Totals(sum(trained), sum(count > 0 for count in trained), max_tokens),
            response_tokens=sum(len(sequence.response_ids) for sequence in sequences),
            positive_tokens=sum(len(s.response_ids) for s in sequences if s.is_positive),
        )


def policy_objective(
    config: TrainConfig,
    kl_coef: float,
    sizes: UpdateSizes,
    batch: TrainBatch,
    scores: TokenScores,
) -> Summand:
    """The policy's loss and its numbers, each of them a summand but for `ratio_max`.

    L = agg(w · L_clip) + kl_coef · agg_KL(KL̂) − entropy_coef · agg(H) + μ · L_positive
        + c · L_value (with a shared critic)

    over the tokens that train. `agg` is `optimization.loss_aggregation`, `agg_KL` is
    `reference.kl_aggregation`, w the importance weight, L_positive the mean negative log-likelihood
    of the tokens of good rollouts (VAPO, arXiv:2504.05118, section 4.3).
    """
    optimization, mask_BT = config.optimization, batch.is_trained_BT
    # What does not train is 0 in both: its ratio is 1, and no gradient passes.
    logprobs_BT = scores.logprobs_BT.masked_fill(~mask_BT, 0.0)
    old_BT = batch.old_logprobs_BT.masked_fill(~mask_BT, 0.0)
    surrogate = clipped_surrogate(
        logprobs_BT,
        old_BT,
        batch.advantages_BT,
        optimization.clip_low,
        optimization.clip_high,
        optimization.dual_clip,
    )
    weighted_BT = surrogate.loss * batch.importance_BT
    total = aggregate(weighted_BT, mask_BT, optimization.loss_aggregation, sizes.trained)
    if config.reference.kl_in == "loss" and kl_coef > 0:
        kl_BT = _kl(config.reference, batch, scores)
        kind = config.reference.kl_aggregation
        total = total + kl_coef * aggregate(kl_BT, mask_BT, kind, sizes.trained)
    total = total + _bonuses(optimization, sizes, batch, scores)
    num_tokens = max(sizes.trained.num_tokens, 1)
    numbers = {
        "clip_frac": (surrogate.is_clipped & mask_BT).sum() / num_tokens,
        "approx_kl": k3(old_BT, logprobs_BT).sum() / num_tokens,
        "ratio_mean": (surrogate.ratio * mask_BT).sum() / num_tokens,
        "ratio_max": (surrogate.ratio * mask_BT).max(),
        "entropy": scores.entropy_BT.sum() / max(sizes.response_tokens, 1),
    }
    if isinstance(config.critic, SharedCritic):
        value, value_numbers = shared_value_objective(config.critic.loss, sizes, batch, scores)
        total = total + config.critic.coef * value
        numbers |= value_numbers
    return total, {**numbers, "loss": total}


def value_objective(
    loss: ValueLoss, sizes: UpdateSizes, batch: TrainBatch, outputs_BT: torch.Tensor
) -> Summand:
    """The mean value loss over all response tokens of the update."""
    mask_BT = batch.response_mask_BT
    losses_BT, is_clipped_BT = value_loss(outputs_BT, batch.old_values_BT, batch.returns_BT, loss)
    num_tokens = max(sizes.response_tokens, 1)
    total = losses_BT.masked_fill(~mask_BT, 0.0).sum() / num_tokens
    return total, {
        "loss": total,
        "clip_frac": (is_clipped_BT & mask_BT).sum() / num_tokens,
        "value_mean": (values_of(outputs_BT, loss) * mask_BT).sum() / num_tokens,
    }


def shared_value_objective(
    loss: ValueLoss, sizes: UpdateSizes, batch: TrainBatch, scores: TokenScores
) -> Summand:
    """The same for a head in the policy's module; its numbers are named `critic_…`."""
    total, numbers = value_objective(loss, sizes, batch, scores.value_outputs_BT)
    return total, {"loss": total} | {f"critic_{name}": x for name, x in numbers.items()}


def _kl(reference: ReferenceConfig, batch: TrainBatch, scores: TokenScores) -> torch.Tensor:
    if reference.kl_estimator == "full":
        kl_BT = scores.kl_BT
    else:
        kl_BT = KL_ESTIMATORS[reference.kl_estimator](scores.logprobs_BT, batch.ref_logprobs_BT)
    kl_BT = clamp(kl_BT, reference.kl_clamp)
    if reference.kl_gradient == "own":
        return kl_BT
    return with_k2_gradient(kl_BT, scores.logprobs_BT, batch.ref_logprobs_BT)


def _bonuses(
    optimization: OptimizationConfig, sizes: UpdateSizes, batch: TrainBatch, scores: TokenScores
) -> torch.Tensor:
    """The entropy bonus and the language-model loss on good rollouts."""
    total = scores.logprobs_BT.new_zeros(())
    if optimization.entropy_coef > 0:
        kind = optimization.loss_aggregation
        entropy = aggregate(scores.entropy_BT, batch.is_trained_BT, kind, sizes.trained)
        total = total - optimization.entropy_coef * entropy
    if optimization.positive_examples is not None and sizes.positive_tokens:
        is_good_BT = batch.response_mask_BT & batch.is_positive_B[:, None]
        likelihood = (scores.logprobs_BT * is_good_BT).sum() / sizes.positive_tokens
        total = total - optimization.positive_examples.coef * likelihood
    return total
