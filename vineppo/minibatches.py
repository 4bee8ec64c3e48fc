"""An iteration's updates: which sequences go into which, their sizes, their numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch

from vineppo.batching import collate, grouped_minibatches, micro_batches_of
from vineppo.config.schema import AdamConfig, TrainConfig
from vineppo.deepspeed_module import Update
from vineppo.distributed import num_ranks, rank
from vineppo.losses import Totals
from vineppo.seeds import derive_seed, rate_of
from vineppo.types import TokenSequence, TrainBatch

Stats = list[dict[str, float]]


@dataclass(frozen=True)
class UpdateSizes:
    """Counts over all sequences of an update, on all ranks."""

    trained: Totals
    response_tokens: int
    positive_tokens: int

    @classmethod
    def of(cls, sequences: Sequence[TokenSequence], max_tokens: int) -> "UpdateSizes":
        """By the columns "is_trained" and "is_positive"; without them all tokens train."""
        columns = [sequence.tokens_T for sequence in sequences]
        lengths = [sum(sequence.is_action_T) for sequence in sequences]
        trained = [
            int(sum(c.get("is_trained", [True] * n))) for c, n in zip(columns, lengths, strict=True)
        ]
        return cls(
            trained=Totals(sum(trained), sum(count > 0 for count in trained), max_tokens),
            response_tokens=sum(lengths),
            positive_tokens=int(sum(sum(c.get("is_positive", ())) for c in columns)),
        )


@dataclass(frozen=True)
class Minibatch:
    """One update: this rank's share of it, the sizes of the whole, the rate."""

    micro_batches: list[TrainBatch]
    sizes: UpdateSizes
    learning_rate: float


def minibatches(
    model: Any,
    sequences: Sequence[TokenSequence],
    columns: Sequence[str],
    optimization: AdamConfig,
    config: TrainConfig,
    iteration: int,
    stream: str = "minibatches",
    first_iteration: int = 1,
) -> Iterator[Minibatch]:
    """The epochs of an iteration, cut into updates. Nothing is dropped: the last may be smaller.

    The batches carry `columns` and lie on the `model`'s device, packed where it `packs`. With
    `optimization.shuffle` "groups" a problem's rollouts go into one update where it has room. The
    learning rate's schedule runs from `first_iteration` to the run's last.
    """
    whole = config.optimization.shuffle == "groups"
    groups = [sequence.prompt_ids if whole else i for i, sequence in enumerate(sequences)]
    plan = [
        chosen
        for epoch in range(optimization.num_epochs)
        for seed in [derive_seed(config.seed, iteration, stream, epoch)]
        for chosen in grouped_minibatches(groups, optimization.batch_size, seed)
    ]
    done = (iteration - first_iteration) * len(plan)
    total = (config.num_iterations - first_iteration + 1) * len(plan)
    for number, indices in enumerate(plan):
        rate = rate_of(optimization, done + number, total)
        chosen = [sequences[i] for i in indices]
        size = optimization.micro_batch_size
        batches = micro_batches(chosen, columns, size, model.device, model.packs)
        yield Minibatch(batches, UpdateSizes.of(chosen, config.sampling.max_tokens), rate)


def micro_batches(
    sequences: Sequence[TokenSequence],
    columns: Sequence[str],
    micro_batch_size: int,
    device: torch.device,
    packs: bool = False,
) -> list[TrainBatch]:
    """This rank's share of the sequences as batches."""
    shares = micro_batches_of(sequences, micro_batch_size, rank(), num_ranks(), device, packs)
    return [collate([sequences[i] for i in share], device, columns, packs) for share in shares]


def is_sound(max_mean_ratio: float | None, stats: Stats) -> bool:
    """True if an update may be applied, by the numbers of all its micro-batches."""
    if not isfinite(sum(s["loss"] for s in stats)):
        return False
    return max_mean_ratio is None or sum(s["ratio_mean"] for s in stats) <= max_mean_ratio


def summarize(
    updates: Sequence[Update], group: str, names: Sequence[str], rate: float, prefix: str = ""
) -> dict[str, float]:
    """Means over an iteration's updates of the sums over their micro-batches.

    `prefix` comes before the names in the micro-batches' numbers.
    """
    norms = [update.grad_norm for update in updates if update.grad_norm is not None]
    sums = {name: sum(s[prefix + name] for u in updates for s in u.stats) for name in names}
    return {
        **{f"{group}/{name}": total / len(updates) for name, total in sums.items()},
        f"{group}/grad_norm": sum(norms) / len(norms) if norms else float("nan"),
        f"{group}/lr": rate,
        f"{group}/skipped_updates": len(updates) - len(norms),
    }
