"""What predictors read of a pass of the policy, while training and of a checkpoint alike."""

from collections.abc import Callable, Sequence
from dataclasses import replace
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
) -> list[Rows]:
    """`columns_of` the scores of every response token, one `Rows` a tensor.

    Sets what the predictors take from the same pass: their values, and `hidden_SH` where one of
    them reads the hidden states.
    """
    has_hidden = any(predictor.reads_hidden for predictor in predictors)
    options = replace(options, has_hidden=has_hidden)
    readers: list[ValuePredictor] = []

    def read(batch: TrainBatch, share: Sequence[Rollout]) -> list[tuple[Any, ...]]:
        scores = scores_of(batch, options)
        columns = [*columns_of(scores)]
        readers.clear()
        for predictor in predictors:
            if (values_BT := predictor.from_policy(scores)) is not None:
                readers.append(predictor)
                columns.append(values_BT)
        rows = zip(response_rows(columns, batch), hidden_before_steps(scores, share), strict=False)
        return [(*row, hidden_SH) for row, hidden_SH in rows]

    rows_B = read_sequences(read, rollouts, micro_batch_size, device)
    *columns, hidden = map(list, zip(*rows_B, strict=True))
    for rollout, hidden_SH in zip(rollouts, hidden, strict=True):
        rollout.hidden_SH = hidden_SH
    num_own = len(columns) - len(readers)
    for predictor, values in zip(readers, columns[num_own:], strict=True):
        predictor.set_values(rollouts, values)
    return columns[:num_own]


def hidden_before_steps(
    scores: TokenScores, rollouts: Sequence[Rollout]
) -> list[np.ndarray | None]:
    """[S, H] of every rollout of a batch, in float32; None where the pass has none."""
    if scores.hidden_BTH is None:
        return [None] * len(rollouts)
    return [
        hidden_TH[[len(rollout.prompt_ids) + span.start for span in rollout.spans_S]]
        .float()
        .cpu()
        .numpy()
        for hidden_TH, rollout in zip(scores.hidden_BTH, rollouts, strict=False)
    ]
