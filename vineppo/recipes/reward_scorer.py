"""Rewards that a frozen reward model's scores join, and where a response is scored."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from vineppo.config.schema import ScorerConfig, TrainConfig
from vineppo.config.schema.scalars import Count, Name, PositiveFraction
from vineppo.distributed import LONE
from vineppo.errors import UserError
from vineppo.models import LoadedModel
from vineppo.token_scores import last_hidden, read_sequences
from vineppo.types import TokenSequence, TrainBatch
from vineppo.values.heads import check_size, load_classifier, set_padding

SCORED = "is_scored"  # the column that marks the token whose score is the response's


def scored_sequence(
    prompt_ids: Sequence[int], response_ids: Sequence[int], pad_id: int
) -> TokenSequence:
    """A response that is read at its last token that is no padding, as transformers reads it.

    With pad id 2, (5, 7, 2) is read at 7: where texts end with the padding's token (many models
    have one token for both), that token says nothing. One of nothing else is read at its end.
    """
    last = max((i for i, token in enumerate(response_ids) if token != pad_id), default=None)
    place = len(response_ids) - 1 if last is None else last
    sequence = TokenSequence(tuple(prompt_ids), tuple(response_ids))
    sequence.tokens_T[SCORED] = tuple(i == place for i in range(len(response_ids)))
    return sequence


class SequenceScores(nn.Module):
    """r(prompt, response), the head's output behind the marked token, [B]; 0 where none is."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: TrainBatch) -> torch.Tensor:
        hidden_BTH = last_hidden(self.model.base_model, batch.token_ids_BT)
        scores_BT = self.model.score(hidden_BTH).squeeze(-1).float()
        return scores_BT.masked_fill(~batch[SCORED], 0.0).sum(1)


@dataclass(frozen=True)
class RewardModelReward(ScorerConfig):
    """(1 − weight) · the verifier's reward + weight · a reward model's output."""

    path: Name
    weight: PositiveFraction  # 1: the reward model alone
    output: Literal["score", "probability"]  # "probability": the score's sigmoid
    micro_batch_size: Count  # as optimization.logprobs_micro_batch_size

    @property
    def is_bounded(self) -> bool:
        return self.output == "probability"

    @property
    def frozen_path(self) -> str:
        return self.path

    def start(self, config: TrainConfig, loaded: LoadedModel) -> "RewardModelScorer":
        return RewardModelScorer(self, config, loaded)


class RewardModelScorer:
    """Joins a frozen reward model to the verifier's rewards (`reward_model` in the config).

    reward = (1 − weight) · verdict + weight · r, r the score or its sigmoid. Responses are scored
    together when the first of their rewards is read, so that nothing waits while the engine runs.
    With weight 0.25, a verdict of 1 and a score of 2: 0.75 + 0.5 = 1.25; by sigmoid 0.970.
    """

    def __init__(self, scorer: RewardModelReward, config: TrainConfig, loaded: LoadedModel) -> None:
        """Raises `UserError` for a model that is no reward model, or too small."""
        self._config, key = scorer, "reward_model.path"
        model = load_classifier(self._config.path, config.model, None, config.seed, key)
        check_size(model, loaded.engine_model.num_token_ids, config.engine.max_model_len, key)
        set_padding(model, loaded.tokenizer)
        self._pad_id: int = model.config.pad_token_id
        self._module = SequenceScores(model).eval()
        self._device = torch.device("cpu")
        self._waiting: list[tuple[TokenSequence, Future[float], _Reward]] = []

    def to(self, device: torch.device) -> None:
        self._module.to(device)
        self._device = device

    def submit(
        self, prompt_ids: Sequence[int], response_ids: Sequence[int], verdict: Future[float]
    ) -> Future[float]:
        """The reward of a response with the verifier's reward `verdict`."""
        reward = _Reward(self)
        sequence = scored_sequence(prompt_ids, response_ids, self._pad_id)
        self._waiting.append((sequence, verdict, reward))
        return reward

    def settle(self) -> None:
        """Scores all that wait, and waits for their verdicts."""
        waiting, self._waiting = self._waiting, []

        def read(batch: TrainBatch, _: Sequence[TokenSequence]) -> list[float]:
            scores_B = self._module(batch)
            if not scores_B.isfinite().all():
                raise UserError(
                    "reward_model: scores must be finite, got "
                    f"{scores_B.tolist()} by {self._config.path}"
                )
            is_score = self._config.output == "score"
            outputs: list[float] = (scores_B if is_score else scores_B.sigmoid()).tolist()
            return outputs

        sequences = [sequence for sequence, _, _ in waiting]
        size, weight = self._config.micro_batch_size, self._config.weight
        outputs = read_sequences(read, sequences, size, self._device, LONE, (SCORED,))
        for (_, verdict, reward), output in zip(waiting, outputs, strict=True):
            reward.set_result((1.0 - weight) * verdict.result() + weight * output)


class _Reward(Future[float]):
    """Has the scorer settle when it is read too early."""

    def __init__(self, scorer: RewardModelScorer) -> None:
        super().__init__()
        self._scorer = scorer

    def result(self, timeout: float | None = None) -> float:
        if not self.done():
            self._scorer.settle()
        return super().result(timeout)
