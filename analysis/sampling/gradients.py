"""The policy gradient of every problem, by the trainer's own forward pass and loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from vineppo.sequences import trained_tokens, whitened

from analysis.sampling.saved import SavedRollout
from analysis.sampling.sketch import CountSketch
from vineppo.batching import collate, length_bucketed
from vineppo.config.schema import TrainConfig
from vineppo.losses import Totals, aggregate
from vineppo.objectives import UpdateSizes
from vineppo.token_scores import ForwardOptions, TokenLogprobs
from vineppo.types import TrainBatch, TrainSequence


@dataclass(frozen=True)
class Unscored:
    """The rollouts of N problems as the update would see them, but for their advantages."""

    sequences_NG: list[list[TrainSequence]]
    totals: Totals

    def scored(
        self, advantages_NGT: Sequence[Sequence[Sequence[float]]], is_whitened: bool
    ) -> list[list[TrainSequence]]:
        """With the advantages, on request whitened over the trained tokens of all problems."""
        flat = [
            replace(sequence, advantages_T=tuple(advantages_T))
            for sequences_G, advantages_GT in zip(self.sequences_NG, advantages_NGT, strict=True)
            for sequence, advantages_T in zip(sequences_G, advantages_GT, strict=True)
        ]
        remaining = iter(whitened(flat) if is_whitened else flat)
        return [[next(remaining) for _ in sequences_G] for sequences_G in self.sequences_NG]

    @classmethod
    def of(cls, groups: Sequence[Sequence[SavedRollout]], config: TrainConfig) -> "Unscored":
        sequences_NG = [[_sequence(one, config) for one in group] for group in groups]
        every = [sequence for sequences_G in sequences_NG for sequence in sequences_G]
        return cls(sequences_NG, UpdateSizes.of(every, config.sampling.max_tokens).trained)


def problem_gradients(
    module: TokenLogprobs,
    config: TrainConfig,
    scored_NG: Sequence[Sequence[TrainSequence]],
    totals: Totals,
    sketch: CountSketch,
    advance: Callable[[], None],
) -> np.ndarray:
    """The sketched policy gradient of every problem by one estimator's advantages, [N, d].

    g_n = N · ∇ agg(r_t A_t) over the rollouts of problem n, so that the mean of the g_n is the
    ascent direction of one update on all of them, before clipping, KL and bonuses. `agg` is
    `optimization.loss_aggregation` with the sizes of all N problems, over the tokens that train,
    r_t = π/π_old the ratio of the trained to the sampling policy: 1 up to rounding where they are
    the same, whose gradient is A_t ∇ log π. `advance` is called after each gradient.
    """
    device = next(module.parameters()).device
    rows_ND = np.zeros((len(scored_NG), sketch.size), np.float32)
    for n, sequences in enumerate(scored_NG):
        cuts = length_bucketed([len(s) for s in sequences], config.optimization.micro_batch_size)
        batches = [collate([sequences[i] for i in cut], device) for cut in cuts]
        rows_ND[n] = len(scored_NG) * _gradient(module, config, batches, totals, sketch).cpu()
        advance()
    return rows_ND


def _gradient(
    module: TokenLogprobs,
    config: TrainConfig,
    batches: Sequence[TrainBatch],
    totals: Totals,
    sketch: CountSketch,
) -> torch.Tensor:
    """The sketch of Σ over the micro-batches."""
    module.zero_grad()
    for batch in batches:
        logprobs_BT = module(batch, ForwardOptions(config.sampling.temperature))[0]
        ratio_BT = torch.exp((logprobs_BT - batch.old_logprobs_BT) * batch.is_trained_BT)
        gain = aggregate(
            ratio_BT * batch.advantages_BT,
            batch.is_trained_BT,
            config.optimization.loss_aggregation,
            totals,
        )
        gain.backward()
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    return sketch(
        torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights
    )


def _sequence(one: SavedRollout, config: TrainConfig) -> TrainSequence:
    rollout = one.rollout
    return replace(
        TrainSequence.blank(rollout.prompt_ids, rollout.response_ids),
        old_logprobs_T=rollout.logprobs_T,
        is_trained_T=trained_tokens(rollout, rollout.logprobs_T, config),
    )
