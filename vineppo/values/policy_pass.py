"""The inputs that predictors take from a pass of the policy, in training and of a checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import torch

from vineppo.batching import response_rows
from vineppo.forward_passes import Rows, read_sequences
from vineppo.token_scores import ForwardOptions, TokenScores
from vineppo.types import Rollout, TrainBatch
from vineppo.values.predictor import ValuePredictor


def read_policy(
    rollouts: Sequence[Rollout],
    predictors: Sequence[ValuePredictor],
    scores_of: Callable[[TrainBatch, ForwardOptions], TokenScores],
    options: ForwardOptions,
    columns_of: Callable[[TokenScores], Sequence[torch.Tensor]],
    micro_batch_size: int,
    device: torch.device,
    packs: bool = False,
) -> list[Rows]:
    """`columns_of` the scores of every response token, one `Rows` a tensor.

    Sets from the same pass the predictors' values, and `hidden_SH`, "entropies" and `choices` if
    one of the predictors reads them.
    """
    reads_entropies = any(predictor.reads_entropies for predictor in predictors)
    options = replace(
        options,
        has_entropy=options.has_entropy or reads_entropies,
        has_hidden=any(predictor.reads_hidden for predictor in predictors),
        num_candidates=max((predictor.num_candidates for predictor in predictors), default=0),
    )
    chooser = next((p for p in predictors if p.num_candidates), None)
    readers: list[ValuePredictor] = []

    def read(batch: TrainBatch, share: Sequence[Rollout]) -> list[tuple[Any, ...]]:
        scores = scores_of(batch, options)
        columns = [*columns_of(scores)]
        if reads_entropies:
            columns.append(scores.entropy_BT)
        readers.clear()
        for predictor in predictors:
            if (values_BT := predictor.from_policy(scores)) is not None:
                readers.append(predictor)
                columns.append(values_BT)
        hidden = hidden_before_steps(scores, share) if options.has_hidden else repeat(None)
        choices = chooser.choices_of(scores, share) if chooser is not None else repeat(None)
        rows = zip(response_rows(columns, batch, share), hidden, choices, strict=False)
        return [(*row, hidden_SH, choices_U) for row, hidden_SH, choices_U in rows]

    rows_B = read_sequences(read, rollouts, micro_batch_size, device, packs=packs)
    *columns, hidden, choices = map(list, zip(*rows_B, strict=True))
    for rollout, hidden_SH, choices_U in zip(rollouts, hidden, choices, strict=True):
        rollout.hidden_SH, rollout.choices = hidden_SH, choices_U
    for predictor in reversed(readers):
        predictor.set_values(rollouts, columns.pop())
    if reads_entropies:
        for rollout, entropies_T in zip(rollouts, columns.pop(), strict=True):
            rollout.tokens_T["entropies"] = entropies_T
    return columns


def hidden_before_steps(scores: TokenScores, rollouts: Sequence[Rollout]) -> list[np.ndarray]:
    """[S, H] of every rollout of a batch, in float32."""
    assert scores.hidden_BTH is not None, "asked for"
    return [
        hidden_TH[[len(rollout.prompt_ids) + span.start for span in rollout.spans_S]]
        .float()
        .cpu()
        .numpy()
        for hidden_TH, rollout in zip(scores.hidden_BTH, rollouts, strict=False)
    ]
