"""Around every estimator: rewards of tokens before it; masks, weights and whitening after it."""

from collections.abc import Sequence

import torch

from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.losses import clamp, importance_weights, whiten
from vineppo.plugins import load_function
from vineppo.types import Rollout, by_problem


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


def add_update_columns(rollouts: Sequence[Rollout], config: TrainConfig) -> None:
    """Sets what the policy's loss reads (`update.POLICY_COLUMNS`) from "advantages"."""
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
