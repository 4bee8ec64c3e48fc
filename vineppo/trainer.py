"""The phases of an iteration, as functions over injected state. `train.py` puts them in order."""

from collections.abc import Callable, Sequence
from math import isfinite

import torch

from vineppo.batching import collate, length_bucketed, shuffled_minibatches
from vineppo.config.schema import (
    OptimizationConfig,
    ReferenceConfig,
    SamplingConfig,
    TrainConfig,
)
from vineppo.experience import Experience
from vineppo.kl import KL_ESTIMATORS
from vineppo.losses import clipped_surrogate, whiten
from vineppo.metrics import kl_metrics, logprob_gap_metrics
from vineppo.policy import LossFunction, Policy, Update
from vineppo.schedules import learning_rate
from vineppo.seeds import derive_seed
from vineppo.types import Rollout, TrainBatch, TrainSequence

BatchLogprobs = Callable[[TrainBatch, float], torch.Tensor]


def response_logprobs(
    logprobs: BatchLogprobs,
    rollouts: Sequence[Rollout],
    micro_batch_size: int,
    temperature: float,
    device: torch.device,
) -> list[tuple[float, ...]]:
    """log π of every response token, one tuple a rollout, without gradient."""
    sequences = [_unscored(rollout) for rollout in rollouts]
    scored: list[tuple[float, ...]] = [()] * len(sequences)
    for indices in length_bucketed([len(s) for s in sequences], micro_batch_size):
        batch = collate([sequences[i] for i in indices], device)
        logprobs_BT = logprobs(batch, temperature).cpu()
        mask_BT = batch.response_mask_BT.cpu()
        for row, index in enumerate(indices):
            scored[index] = tuple(logprobs_BT[row][mask_BT[row]].tolist())
    return scored


def build_sequences(
    experience: Experience,
    advantages_S: Sequence[Sequence[float]],
    old_logprobs: Sequence[tuple[float, ...]],
    ref_logprobs: Sequence[tuple[float, ...]],
    is_whitened: bool,
) -> list[TrainSequence]:
    """One sequence a rollout, its step advantages broadcast over the tokens of their spans.

    Whitening takes mean and deviation over all response tokens of the iteration.
    """
    lengths = [span.end - span.start for spans_S in experience.spans_S for span in spans_S]
    flat = torch.tensor([a for row in advantages_S for a in row], dtype=torch.float64)
    if is_whitened:
        flat = whiten(flat, torch.tensor(lengths, dtype=torch.float64))
    remaining = iter(flat.tolist())
    sequences = []
    for rollout, spans_S, old, ref in zip(
        experience.rollouts, experience.spans_S, old_logprobs, ref_logprobs, strict=True
    ):
        advantages_T = [a for span in spans_S for a in [next(remaining)] * (span.end - span.start)]
        sequences.append(
            TrainSequence(rollout.prompt_ids, rollout.response_ids, old, ref, tuple(advantages_T))
        )
    return sequences


def score(
    experience: Experience,
    policy: Policy,
    reference: BatchLogprobs,
    config: TrainConfig,
) -> tuple[list[TrainSequence], list[list[float]], dict[str, float]]:
    """Training sequences, raw step advantages, and the metrics of both log-probability passes."""
    rollouts, temperature = experience.rollouts, config.sampling.temperature
    size = config.optimization.logprobs_micro_batch_size
    trainer = response_logprobs(policy.logprobs, rollouts, size, temperature, policy.device)
    ref = response_logprobs(reference, rollouts, size, temperature, policy.device)
    engine = [rollout.logprobs_T for rollout in rollouts]
    old = engine if config.optimization.old_logprobs == "engine" else trainer
    estimate = KL_ESTIMATORS[config.reference.kl_estimator]
    kl = [
        estimate(torch.tensor(now), torch.tensor(then)).tolist()
        for now, then in zip(trainer, ref, strict=True)
    ]
    advantages_S = experience.advantages(config.credit)
    is_whitened = config.optimization.whiten_advantages
    sequences = build_sequences(experience, advantages_S, old, ref, is_whitened)
    return (
        sequences,
        advantages_S,
        {
            **logprob_gap_metrics(engine, trainer),
            **kl_metrics(kl, config.reference.kl_coef),
        },
    )


def policy_loss(
    optimization: OptimizationConfig,
    reference: ReferenceConfig,
    num_tokens: int,
    num_sequences: int,
) -> LossFunction:
    """The summand of one micro-batch in the loss of an update with the given global sizes.

    L = (1/num_tokens) Σ_t L_clip(t) + kl_coef (1/num_sequences) Σ_t KL̂(t)

    The surrogate is a mean over tokens, the KL a sum over tokens and a mean over sequences, as in
    VinePPO's published runs.
    """
    estimate = KL_ESTIMATORS[reference.kl_estimator]

    def loss(
        batch: TrainBatch, logprobs_BT: torch.Tensor, entropy_BT: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        mask_BT = batch.response_mask_BT
        surrogate = clipped_surrogate(
            logprobs_BT[mask_BT],
            batch.old_logprobs_BT[mask_BT],
            batch.advantages_BT[mask_BT],
            optimization.clip_low,
            optimization.clip_high,
        )
        kl_N = estimate(logprobs_BT[mask_BT], batch.ref_logprobs_BT[mask_BT])
        if reference.kl_clamp is not None:
            kl_N = kl_N.clamp(max=reference.kl_clamp)
        total = surrogate.loss.sum() / num_tokens + reference.kl_coef * kl_N.sum() / num_sequences
        log_ratio_N = logprobs_BT[mask_BT] - batch.old_logprobs_BT[mask_BT]
        return total, {
            "loss": total,
            "clip_frac": surrogate.is_clipped.sum() / num_tokens,
            "approx_kl": (surrogate.ratio - 1 - log_ratio_N).sum() / num_tokens,
            "ratio_mean": surrogate.ratio.sum() / num_tokens,
            "ratio_max": surrogate.ratio.max(),
            "entropy": entropy_BT.sum() / num_tokens,
        }

    return loss


def update_policy(
    policy: Policy,
    sequences: Sequence[TrainSequence],
    optimization: OptimizationConfig,
    reference: ReferenceConfig,
    sampling: SamplingConfig,
    run_seed: int,
    iteration: int,
    num_iterations: int,
) -> dict[str, float]:
    """Several epochs of clipped updates over shuffled minibatches; `policy/*` metrics.

    Nothing is dropped: the last minibatch of an epoch may be smaller, and its means are over its
    own tokens. An update whose mean ratio exceeds `max_mean_ratio`, or whose loss is not finite, is
    skipped and counted.
    """
    plan = [
        minibatch
        for epoch in range(optimization.num_epochs)
        for minibatch in shuffled_minibatches(
            len(sequences),
            optimization.batch_size,
            derive_seed(run_seed, iteration, "minibatches", epoch),
        )
    ]
    done = (iteration - 1) * len(plan)
    updates: list[Update] = []
    rate = 0.0
    for number, minibatch in enumerate(plan):
        rate = learning_rate(
            done + number,
            num_iterations * len(plan),
            optimization.learning_rate,
            optimization.warmup_fraction,
            optimization.schedule,
        )
        chosen = [sequences[i] for i in minibatch]
        num_tokens = sum(len(sequence.response_ids) for sequence in chosen)
        loss = policy_loss(optimization, reference, num_tokens, len(chosen))
        buckets = length_bucketed([len(s) for s in chosen], optimization.micro_batch_size)
        micro_batches = [collate([chosen[i] for i in b], policy.device) for b in buckets]
        limit = optimization.max_mean_ratio

        def is_accepted(stats: list[dict[str, float]], limit: float | None = limit) -> bool:
            mean_ratio, total = (sum(s[key] for s in stats) for key in ("ratio_mean", "loss"))
            return isfinite(total) and (limit is None or mean_ratio <= limit)

        updates.append(policy.update(micro_batches, loss, sampling.temperature, rate, is_accepted))
    return summarize_updates(updates, rate)


def summarize_updates(updates: Sequence[Update], rate: float) -> dict[str, float]:
    """Means over the updates of an iteration; `ratio_max` is a maximum, `lr` the last."""
    metrics = {
        f"policy/{name}": sum(s[name] for u in updates for s in u.stats) / len(updates)
        for name in ("loss", "clip_frac", "approx_kl", "entropy")
    }
    norms = [update.grad_norm for update in updates if update.grad_norm is not None]
    return {
        **metrics,
        "policy/ratio_max": max(s["ratio_max"] for u in updates for s in u.stats),
        "policy/grad_norm": sum(norms) / len(norms) if norms else float("nan"),
        "policy/lr": rate,
        "policy/skipped_updates": len(updates) - len(norms),
    }


def _unscored(rollout: Rollout) -> TrainSequence:
    zeros_T = (0.0,) * len(rollout.response_ids)
    return TrainSequence(rollout.prompt_ids, rollout.response_ids, zeros_T, zeros_T, zeros_T)
