"""What an update minimises: the summand of one micro-batch, normalised over the whole update."""

from collections.abc import Sequence

import torch

from vineppo.config.schema import OptimizationConfig, ReferenceConfig, TrainConfig
from vineppo.deepspeed_module import Summand
from vineppo.kl import KL_ESTIMATORS, clamp, k3, with_k2_gradient
from vineppo.losses import aggregate, clipped_surrogate
from vineppo.minibatches import UpdateSizes
from vineppo.token_scores import TokenScores
from vineppo.types import TrainBatch
from vineppo.values.predictor import ValuePredictor

# The columns of a rollout that the policy's loss reads.
POLICY_COLUMNS = (
    "old_logprobs",
    "ref_logprobs",
    "loss_advantages",
    "is_trained",
    "importance",
    "is_positive",
)


def policy_objective(
    config: TrainConfig,
    kl_coef: float,
    predictors: Sequence[ValuePredictor],
    sizes: UpdateSizes,
    batch: TrainBatch,
    scores: TokenScores,
) -> Summand:
    """The policy's loss and its numbers, each of them a summand but for `ratio_max`.

    L = agg(w · L_clip) + kl_coef · agg_KL(KL̂) − entropy_coef · agg(H) + μ · L_positive
        + Σ c · L_value (of value heads on the policy's backbone)

    over the tokens that train. `agg` is `optimization.loss_aggregation`, `agg_KL` is
    `reference.kl_aggregation`, w the importance weight, L_positive the mean negative log-likelihood
    of the tokens of good rollouts (VAPO, arXiv:2504.05118, section 4.3).
    """
    optimization, mask_BT = config.optimization, batch["is_trained"]
    # What does not train is 0 in both: its ratio is 1, and no gradient passes.
    logprobs_BT = scores.logprobs_BT.masked_fill(~mask_BT, 0.0)
    old_BT = batch["old_logprobs"].masked_fill(~mask_BT, 0.0)
    surrogate = clipped_surrogate(
        logprobs_BT,
        old_BT,
        batch["loss_advantages"],
        optimization.clip_low,
        optimization.clip_high,
        optimization.dual_clip,
    )
    weighted_BT = surrogate.loss * batch["importance"]
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
    for predictor in predictors:
        joined = predictor.policy_loss(sizes, batch, scores)
        if joined is not None:
            coef, (value, value_numbers) = joined
            total = total + coef * value
            numbers |= {f"{predictor.name}/{name}": x for name, x in value_numbers.items()}
    return total, {**numbers, "loss": total}


def _kl(reference: ReferenceConfig, batch: TrainBatch, scores: TokenScores) -> torch.Tensor:
    if reference.kl_estimator == "full":
        kl_BT = scores.kl_BT
    else:
        kl_BT = KL_ESTIMATORS[reference.kl_estimator](scores.logprobs_BT, batch["ref_logprobs"])
    kl_BT = clamp(kl_BT, reference.kl_clamp)
    if reference.kl_gradient == "own":
        return kl_BT
    return with_k2_gradient(kl_BT, scores.logprobs_BT, batch["ref_logprobs"])


def _bonuses(
    optimization: OptimizationConfig, sizes: UpdateSizes, batch: TrainBatch, scores: TokenScores
) -> torch.Tensor:
    """The entropy bonus and the language-model loss on good rollouts."""
    total = scores.logprobs_BT.new_zeros(())
    if optimization.entropy_coef > 0:
        kind = optimization.loss_aggregation
        entropy = aggregate(scores.entropy_BT, batch["is_trained"], kind, sizes.trained)
        total = total - optimization.entropy_coef * entropy
    if optimization.positive_examples is not None and sizes.positive_tokens:
        likelihood = (scores.logprobs_BT * batch["is_positive"]).sum() / sizes.positive_tokens
        total = total - optimization.positive_examples.coef * likelihood
    return total
