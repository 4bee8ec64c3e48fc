"""The updates of an iteration: the columns they read, then the critics' and the policy's loss."""

from collections.abc import Sequence
from functools import partial

import torch

from vineppo.batching import UpdateSizes, is_sound, minibatches, summarize
from vineppo.config.schema import OptimizationConfig, ReferenceConfig, TrainConfig
from vineppo.errors import UserError
from vineppo.losses import (
    KL_ESTIMATORS,
    aggregate,
    clamp,
    importance_weights,
    k3,
    policy_surrogate,
    token_ratio,
    weighted,
    whiten,
    with_k2_gradient,
)
from vineppo.plugins import RECIPES, load_function
from vineppo.policy import Policy, Reference, Summand, Update
from vineppo.token_scores import ForwardOptions, TokenScores
from vineppo.types import Rollout, TokenSequence, TrainBatch, by_problem
from vineppo.values import ValuePredictor
from vineppo.values.heads import VALUE_NUMBERS

# The columns of a rollout that the policy's loss reads; the reference's for a KL alone.
POLICY_COLUMNS = (
    "old_logprobs",
    "ref_logprobs",
    "loss_advantages",
    "is_trained",
    "importance",
    "is_positive",
    "is_without_bonus",
)


def update(
    rollouts: Sequence[Rollout],
    policy: Policy,
    predictors: Sequence[ValuePredictor],
    reference: Reference | None,
    config: TrainConfig,
    iteration: int,
    kl_coef: float,
) -> dict[str, float]:
    """Trains everything, in a critic's warm-up the critic alone; gives the updates' metrics."""
    metrics: dict[str, float] = {}
    for predictor in predictors:
        if not predictor.trains_policy:
            metrics |= predictor.update(rollouts, iteration)
    heads = [predictor for predictor in predictors if predictor.head is not None]
    if iteration > warmup_iterations(config):
        drawn = rollouts
        if config.optimization.resampling is not None:
            drawn = load_function(*RECIPES.RESAMPLED)(rollouts, config, iteration)
        metrics |= update_policy(policy, drawn, heads, reference, config, iteration, kl_coef)
    elif heads:
        metrics |= warm_up_head(policy, rollouts, heads[0], config, iteration)
    for predictor in predictors:
        if predictor.trains_policy:
            metrics |= predictor.update(rollouts, iteration)
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

    The losses and metrics of `heads` on the policy's backbone join. It skips and counts an update
    with a mean ratio above `max_mean_ratio`, or with a loss or gradient that is not finite.
    """
    optimization = config.optimization
    has_exact_kl = config.reference.kl_estimator == "full" and config.reference.kl_in == "loss"
    options = ForwardOptions(
        config.sampling.temperature,
        reference=reference if has_exact_kl and kl_coef > 0 else None,
        has_entropy=True,
    )
    columns = [name for name in POLICY_COLUMNS if kl_coef > 0 or name != "ref_logprobs"]
    columns += [name for head in heads for name in head.update_columns]
    accept = partial(is_sound, optimization.max_mean_ratio)
    updates: list[Update] = []
    rates: list[float] = []
    num_tokens = num_cells = num_trained = num_responded = 0
    for part in minibatches(
        policy, rollouts, columns, optimization, config, iteration,
        first_iteration=warmup_iterations(config) + 1,
    ):  # fmt: skip
        num_tokens += sum(batch.num_tokens for batch in part.micro_batches)
        num_cells += sum(batch.num_cells for batch in part.micro_batches)
        num_trained += part.sizes.trained.num_tokens
        num_responded += part.sizes.response_tokens
        loss = partial(policy_objective, config, kl_coef, heads, part.sizes)
        share = part.learning_rate / optimization.learning_rate
        rates = [part.learning_rate, *(head.head_learning_rate * share for head in heads)]
        updates.append(policy.update(part.micro_batches, loss, options, rates, accept))
    metrics = summarize(updates, "policy", ("loss", "clip_frac", "approx_kl", "entropy"), rates[0])
    metrics["policy/padding_frac"] = 1.0 - num_tokens / num_cells
    metrics["policy/trained_frac"] = num_trained / num_responded
    metrics["policy/ratio_max"] = max(s["ratio_max"] for u in updates for s in u.stats)
    for head, rate in zip(heads, rates[1:], strict=True):
        metrics |= summarize(updates, head.name, VALUE_NUMBERS, rate, f"{head.name}/")
    return metrics


def warm_up_head(
    policy: Policy,
    rollouts: Sequence[TokenSequence],
    head: ValuePredictor,
    config: TrainConfig,
    iteration: int,
) -> dict[str, float]:
    """An iteration of a shared critic's warm-up: the head learns, the backbone stays."""
    options = ForwardOptions(config.sampling.temperature, only_values=True)
    rates = [0.0, head.head_learning_rate]

    def head_loss(sizes: UpdateSizes, batch: TrainBatch, scores: TokenScores) -> Summand:
        joined = head.policy_loss(sizes, batch, scores)
        assert joined is not None
        return joined[1]

    updates = [
        policy.update(
            part.micro_batches, partial(head_loss, part.sizes), options, rates,
            partial(is_sound, None),
        )
        for part in minibatches(
            policy, rollouts, head.update_columns, config.optimization, config, iteration
        )
    ]  # fmt: skip
    return summarize(updates, head.name, VALUE_NUMBERS, rates[1])


def warmup_iterations(config: TrainConfig) -> int:
    return config.critic.warmup_iterations if config.critic is not None else 0


def policy_objective(
    config: TrainConfig,
    kl_coef: float,
    predictors: Sequence[ValuePredictor],
    sizes: UpdateSizes,
    batch: TrainBatch,
    scores: TokenScores,
) -> Summand:
    """The policy's loss and its numbers, all of them summands except `ratio_max`.

    L = agg(w · L_policy) + kl_coef · agg_KL(KL̂) − entropy_coef · agg(H) + μ · L_positive
        + Σ c · L_value (of value heads on the policy's backbone)

    over the tokens that train. `agg` is `optimization.loss_aggregation`, `agg_KL` is
    `reference.kl_aggregation`, w the importance weight, L_policy that of `policy_surrogate`,
    L_positive the mean negative log-likelihood of the tokens of good rollouts (VAPO,
    arXiv:2504.05118, section 4.3).
    """
    optimization, mask_BT = config.optimization, batch["is_trained"]
    # Tokens that do not train are 0 in both: their ratio is 1, and no gradient passes.
    logprobs_BT = scores.logprobs_BT.masked_fill(~mask_BT, 0.0)
    old_BT = batch["old_logprobs"].masked_fill(~mask_BT, 0.0)
    advantages_BT = batch["loss_advantages"]
    surrogate = policy_surrogate(optimization, logprobs_BT, old_BT, advantages_BT, mask_BT)
    weighted_BT = surrogate.loss * batch["importance"]
    total = aggregate(weighted_BT, mask_BT, optimization.loss_aggregation, sizes.trained)
    if config.reference.kl_in == "loss" and kl_coef > 0:
        kl_BT = _kl(config.reference, batch, scores)
        if config.reference.kl_importance:
            ratio_BT = token_ratio(logprobs_BT, old_BT)
            kl_BT = weighted(kl_BT, ratio_BT, config.reference.kl_gradient)
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
        assert reference.kl_estimator is not None  # its coefficient would be 0
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
        entropy_BT = scores.entropy_BT.masked_fill(batch["is_without_bonus"], 0.0)
        entropy = aggregate(entropy_BT, batch["is_trained"], kind, sizes.trained)
        total = total - optimization.entropy_coef * entropy
    if optimization.positive_examples is not None and sizes.positive_tokens:
        likelihood = (scores.logprobs_BT * batch["is_positive"]).sum() / sizes.positive_tokens
        total = total - optimization.positive_examples.coef * likelihood
    return total


def add_update_columns(rollouts: Sequence[Rollout], config: TrainConfig) -> None:
    """Sets what the policy's loss reads (`POLICY_COLUMNS`) from "advantages"."""
    optimization, positive = config.optimization, config.optimization.positive_examples
    for rollout in rollouts:
        trainer_T = rollout.tokens_T["trainer_logprobs"]
        old_T = rollout.logprobs_T if optimization.old_logprobs == "engine" else trainer_T
        likely_T, nothing_T = tuple(config.credit.sampled_tokens(rollout)), (False,) * len(old_T)
        is_good = positive is not None and rollout.reward > positive.min_reward
        is_example = is_good and not is_masked(rollout, config)
        rollout.tokens_T |= {
            "old_logprobs": old_T,
            "is_trained": trained_tokens(rollout, old_T, config),
            "importance": importance_weights(
                optimization.importance_correction, trainer_T, rollout.logprobs_T
            ),
            "is_positive": likely_T if is_example else nothing_T,
            "loss_advantages": rollout.tokens_T["advantages"],
            "is_without_bonus": nothing_T,
        }
    if optimization.mask_equal_rewards:
        mask_equal_rewards(rollouts)
    if optimization.whiten_advantages:
        whiten_advantages(rollouts)


def mask_equal_rewards(rollouts: Sequence[Rollout]) -> None:
    """Problems with one reward for all rollouts train nothing (DAPO, arXiv:2503.14476, 3.2)."""
    for rollouts_G in by_problem(rollouts):
        if has_equal_rewards(rollouts_G):
            for rollout in rollouts_G:
                nothing_T = (False,) * len(rollout.response_ids)
                rollout.tokens_T |= {"is_trained": nothing_T, "is_positive": nothing_T}


def has_equal_rewards(rollouts_G: Sequence[Rollout]) -> bool:
    return len({rollout.reward for rollout in rollouts_G}) == 1


def is_masked(rollout: Rollout, config: TrainConfig) -> bool:
    """The budget cut the rollout off, and truncated rollouts train nothing."""
    return config.optimization.mask_truncated and rollout.finish_reason == "length"


def trained_tokens(
    rollout: Rollout, old_T: Sequence[float], config: TrainConfig
) -> tuple[bool, ...]:
    """The estimator's tokens without masked rollouts, near-certain tokens (arXiv:2505.23564, 4.3),
    and those that a user's mask leaves out.
    """
    max_prob, path = config.optimization.max_token_prob, config.optimization.token_mask_path
    if is_masked(rollout, config):
        return (False,) * len(old_T)
    masks = [config.credit.trained_tokens(rollout)]
    if max_prob is not None:
        masks.append((torch.tensor(old_T, dtype=torch.float64).exp() <= max_prob).tolist())
    if path is not None:
        masks.append(user_mask(path, rollout))
    return tuple(all(trains) for trains in zip(*masks, strict=True))


def user_mask(path: str, rollout: Rollout) -> list[bool]:
    """`trains(rollout)` of a user's file; raises `UserError` unless it is one truth a token."""
    found_T = list(map(bool, load_function(path, "trains")(rollout)))
    if len(found_T) != (num := len(rollout.response_ids)):
        raise UserError(f"{path}: trains must return one truth a token, {num}, got {len(found_T)}")
    return found_T


def whiten_advantages(rollouts: Sequence[Rollout]) -> None:
    """Gives "loss_advantages" mean 0 and deviation 1 over all trained tokens; others stay."""
    columns = [(r.tokens_T["loss_advantages"], r.tokens_T["is_trained"]) for r in rollouts]
    trained = [a for column in columns for a, is_trained in zip(*column, strict=True) if is_trained]
    remaining = iter(whiten(torch.tensor(trained, dtype=torch.float64)).tolist())
    for rollout, column in zip(rollouts, columns, strict=True):
        rollout.tokens_T["loss_advantages"] = tuple(
            next(remaining) if is_trained else advantage
            for advantage, is_trained in zip(*column, strict=True)
        )
