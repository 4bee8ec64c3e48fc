"""From an iteration's experience to training sequences: log-probabilities, KL, values, credit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

import torch

from vineppo.batching import collate, ranks_share
from vineppo.config.schema import TrainConfig
from vineppo.credit import token_advantages
from vineppo.credit.gae import critic_returns, outcome_returns
from vineppo.credit.steps import step_means
from vineppo.critic import Critic
from vineppo.distributed import gather_lists, num_ranks, rank
from vineppo.experience import Experience
from vineppo.kl import KL_ESTIMATORS, clamp
from vineppo.losses import importance_weights, whiten
from vineppo.metrics import explained_variance, kl_metrics, logprob_gap_metrics
from vineppo.policy import Policy
from vineppo.token_scores import ForwardOptions, Reference
from vineppo.types import Rollout, TrainBatch, TrainSequence, Trajectory

Rows = list[tuple[float, ...]]  # one tuple a rollout, one number a response token


@dataclass(frozen=True)
class Scores:
    """Per-token numbers of every rollout; `kl` is raw and `values` None without a critic."""

    trainer: Rows
    reference: Rows
    kl: Rows
    values: Rows | None


@dataclass(frozen=True)
class Scored:
    """Everything the update and the tables need. Advantages are those before whitening."""

    sequences: list[TrainSequence]
    advantages_T: list[list[float]]
    advantages_S: list[list[float]]
    values: Rows | None
    returns_T: list[list[float]]  # the actual rewards to go
    metrics: dict[str, float]


def score_tokens(
    forward: Callable[[TrainBatch], Sequence[torch.Tensor]],
    rollouts: Sequence[Rollout],
    micro_batch_size: int,
    device: torch.device,
) -> list[Rows]:
    """What `forward` says of every response token, without gradient; one `Rows` a tensor.

    Every rank scores its share, and has all of them in the end.
    """
    sequences = [TrainSequence.blank(r.prompt_ids, r.response_ids) for r in rollouts]
    mine: list[tuple[int, list[tuple[float, ...]]]] = []
    for share in ranks_share([len(s) for s in sequences], micro_batch_size, rank(), num_ranks()):
        batch = collate([sequences[i] for i in share], device)
        with torch.no_grad():
            outputs = [tensor.cpu() for tensor in forward(batch)]
        mask_BT = batch.response_mask_BT.cpu()
        for row, index in enumerate(share):
            mine.append((index, [tuple(x_BT[row][mask_BT[row]].tolist()) for x_BT in outputs]))
    scored = [rows for _, rows in sorted(gather_lists(mine), key=lambda item: item[0])]
    return [list(column) for column in zip(*scored, strict=True)]


def score_rollouts(
    rollouts: Sequence[Rollout],
    policy: Policy,
    critic: Critic | None,
    reference: Reference,
    config: TrainConfig,
) -> Scores:
    """The passes without gradient: policy, reference, critic."""
    size = config.optimization.logprobs_micro_batch_size
    temperature = config.sampling.temperature
    estimator = config.reference.kl_estimator
    options = ForwardOptions(temperature, reference=reference if estimator == "full" else None)

    def of_policy(batch: TrainBatch) -> tuple[torch.Tensor, torch.Tensor]:
        scores = policy.scores(batch, options)
        return scores.logprobs_BT, scores.kl_BT

    def of_reference(batch: TrainBatch) -> tuple[torch.Tensor]:
        return (reference.logprobs(batch, temperature),)

    trainer, kl = score_tokens(of_policy, rollouts, size, policy.device)
    (ref,) = score_tokens(of_reference, rollouts, size, policy.device)
    if estimator != "full":
        estimate = KL_ESTIMATORS[estimator]
        kl = [
            tuple(estimate(torch.tensor(now), torch.tensor(then)).tolist())
            for now, then in zip(trainer, ref, strict=True)
        ]
    values = None
    if critic is not None:
        value = critic.values
        (values,) = score_tokens(lambda batch: (value(batch),), rollouts, size, policy.device)
    return Scores(trainer, ref, kl, values)


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
        positive = optimization.positive_examples
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
                is_positive=positive is not None and rollout.reward > positive.min_reward,
            )
        )
    return whitened(sequences) if optimization.whiten_advantages else sequences


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


def score(
    experience: Experience,
    policy: Policy,
    critic: Critic | None,
    reference: Reference,
    config: TrainConfig,
    kl_coef: float,
) -> Scored:
    """Training sequences, raw advantages, and the metrics of the passes without gradient."""
    rollouts = experience.rollouts
    scores = score_rollouts(rollouts, policy, critic, reference, config)
    found = trajectories(experience, scores, config, kl_coef)
    advantages_T: list[list[float]] = []
    pairs = zip(rollouts, found, strict=True)
    for _, group in groupby(pairs, key=lambda pair: pair[0].problem.id):
        advantages_T += token_advantages(config.credit, [trajectory for _, trajectory in group])
    engine = [rollout.logprobs_T for rollout in rollouts]
    returns_T = [outcome_returns(config.credit, trajectory) for trajectory in found]
    metrics = {**logprob_gap_metrics(engine, scores.trainer), **kl_metrics(scores.kl, kl_coef)}
    if scores.values is not None:
        flat_values, flat_returns = chain(*scores.values), chain(*returns_T)
        metrics["critic/explained_variance"] = explained_variance([*flat_values], [*flat_returns])
    return Scored(
        sequences=build_sequences(experience, scores, advantages_T, found, config),
        advantages_T=advantages_T,
        advantages_S=[
            step_means(advantages, spans)
            for advantages, spans in zip(advantages_T, experience.spans_S, strict=True)
        ],
        values=scores.values,
        returns_T=returns_T,
        metrics=metrics,
    )
