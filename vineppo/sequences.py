"""From scores to training sequences: shaped rewards, trajectories, masks, whitening. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from vineppo.config.schema import TrainConfig
from vineppo.credit.gae import critic_returns
from vineppo.experience import Experience
from vineppo.kl import clamp
from vineppo.losses import importance_weights, whiten
from vineppo.types import Rollout, TrainSequence, Trajectory

Rows = list[tuple[float, ...]]  # one tuple a rollout, one number a response token


@dataclass(frozen=True)
class Scores:
    """Per-token numbers of every rollout; `kl` is raw and `values` None without a critic."""

    trainer: Rows
    reference: Rows
    kl: Rows
    values: Rows | None


def shaped_rewards(
    reward: float, kl_T: Sequence[float], config: TrainConfig, kl_coef: float
) -> tuple[float, ...]:
    """The reward of every token: the terminal one on the last, less the KL where it is shaped in.

    r_t = 1[t = T−1] R − kl_coef · clamp(KL̂_t). `kl_T` itself stays as it is.
    """
    if config.reference.kl_in == "reward":
        penalty = clamp(torch.tensor(kl_T, dtype=torch.float64), config.reference.kl_clamp)
        rewards_T = [-kl_coef * kl for kl in penalty.tolist()]
    else:
        rewards_T = [0.0] * len(kl_T)
    rewards_T[-1] += reward
    return tuple(rewards_T)


def trajectories(
    experience: Experience, scores: Scores, config: TrainConfig, kl_coef: float
) -> list[Trajectory]:
    """What the credit estimators look at, in the order of the rollouts."""
    return [
        Trajectory(
            rewards_T=shaped_rewards(rollout.reward, scores.kl[i], config, kl_coef),
            logprobs_T=rollout.logprobs_T,
            spans_S=experience.spans_S[i],
            state_values_S=(
                None
                if experience.values_S is None
                else tuple(value.mean for value in experience.values_S[i])
            ),
            critic_values_T=None if scores.values is None else scores.values[i],
            greedy_reward=experience.greedy_rewards.get(rollout.problem.id),
        )
        for i, rollout in enumerate(experience.rollouts)
    ]


def build_sequences(
    experience: Experience,
    scores: Scores,
    advantages_T: Sequence[Sequence[float]],
    found: Sequence[Trajectory],
    config: TrainConfig,
) -> list[TrainSequence]:
    """One sequence a rollout. Whitening is over the trained tokens of the whole iteration."""
    optimization = config.optimization
    sequences = []
    for i, rollout in enumerate(experience.rollouts):
        old_T = rollout.logprobs_T if optimization.old_logprobs == "engine" else scores.trainer[i]
        importance = optimization.importance_correction
        sequences.append(
            TrainSequence(
                prompt_ids=rollout.prompt_ids,
                response_ids=rollout.response_ids,
                old_logprobs_T=old_T,
                ref_logprobs_T=scores.reference[i],
                advantages_T=tuple(advantages_T[i]),
                is_trained_T=trained_tokens(rollout, old_T, config),
                importance_T=tuple(
                    importance_weights(importance, scores.trainer[i], rollout.logprobs_T)
                ),
                old_values_T=(0.0,) * len(old_T) if scores.values is None else scores.values[i],
                returns_T=(
                    (0.0,) * len(old_T)
                    if scores.values is None
                    else tuple(critic_returns(config.credit, found[i]))
                ),
                is_positive=is_positive(rollout, config),
            )
        )
    return whitened(sequences) if optimization.whiten_advantages else sequences


def is_positive(rollout: Rollout, config: TrainConfig) -> bool:
    """Whether the language-model loss on good rollouts takes it."""
    positive = config.optimization.positive_examples
    is_masked = config.optimization.mask_truncated and rollout.finish_reason == "length"
    return positive is not None and rollout.reward > positive.min_reward and not is_masked


def trained_tokens(
    rollout: Rollout, old_T: Sequence[float], config: TrainConfig
) -> tuple[bool, ...]:
    """Which actions train: none of a masked truncated rollout, none that were near certain.

    Masking the tokens that the policy was sure of is Segment Policy Optimization's probability mask
    (arXiv:2505.23564, section 4.3).
    """
    optimization = config.optimization
    if optimization.mask_truncated and rollout.finish_reason == "length":
        return (False,) * len(old_T)
    if optimization.max_token_prob is None:
        return (True,) * len(old_T)
    old_probs_T = torch.tensor(old_T, dtype=torch.float64).exp()
    return tuple((old_probs_T <= optimization.max_token_prob).tolist())


def whitened(sequences: Sequence[TrainSequence]) -> list[TrainSequence]:
    """Advantages with mean 0 and deviation 1 over all trained tokens; the others keep theirs."""
    trained = [
        advantage
        for sequence in sequences
        for advantage, is_trained in zip(sequence.advantages_T, sequence.is_trained_T, strict=True)
        if is_trained
    ]
    if not trained:
        return list(sequences)
    flat = torch.tensor(trained, dtype=torch.float64)
    remaining = iter(whiten(flat, torch.ones_like(flat)).tolist())
    return [
        replace(
            sequence,
            advantages_T=tuple(
                next(remaining) if is_trained else advantage
                for advantage, is_trained in zip(
                    sequence.advantages_T, sequence.is_trained_T, strict=True
                )
            ),
        )
        for sequence in sequences
    ]
