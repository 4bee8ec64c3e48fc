"""Values that are a frozen reward model's scores of what has been written so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from vineppo.config.schema import Name, PredictorConfig, TrainConfig
from vineppo.models import LoadedModel
from vineppo.policy import Policy
from vineppo.token_scores import token_columns
from vineppo.types import Rollout, TrainBatch
from vineppo.values import ValuePredictor
from vineppo.values.heads import ValueOutputs, check_size, load_classifier


class ScoredStates(ValuePredictor):
    """V(s) = r(prompt, prefix), or its sigmoid: a process reward model.

    Under `vine` a step's advantage is what it adds, r(s_{i+1}) − r(s_i), as in process advantage
    verifiers (arXiv:2410.08146), and of the last step the reward less r(s_i). It learns nothing, so
    it is a fair baseline, and as Q̂ biased as far as it is wrong.
    """

    gives = "tokens"

    @dataclass(frozen=True)
    class Config(PredictorConfig):
        path: Name
        output: Literal["score", "probability"] = "probability"  # the score's sigmoid

        @property
        def frozen_path(self) -> str:
            return self.path

    def __init__(
        self, name: str, config: TrainConfig, options: Any, loaded: LoadedModel | None = None
    ) -> None:
        super().__init__(name, config, options)
        key = f"{self.key}.path"
        model = load_classifier(options.path, config.model, None, config.seed, key)
        if loaded is not None:
            check_size(model, loaded.engine_model.num_token_ids, config.engine.max_model_len, key)
        self.num_weights = sum(weight.numel() for weight in model.parameters())
        self._is_score = options.output == "score"
        self._module = ValueOutputs(model).eval()
        self._device = torch.device("cpu")

    @classmethod
    def at_checkpoint(
        cls,
        name: str,
        config: TrainConfig,
        options: Any,
        directory: Path | None,  # noqa: ARG003
    ) -> "ScoredStates":
        return cls(name, config, options)._to("cuda" if torch.cuda.is_available() else "cpu")

    def start(self, policy: Policy) -> None:
        self._to(policy.device)

    def _to(self, device: torch.device | str) -> "ScoredStates":
        self._device = torch.device(device)
        self._module.to(self._device)
        return self

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        def forward(batch: TrainBatch) -> tuple[torch.Tensor]:
            scores_BT = self._module(batch)
            return (scores_BT if self._is_score else scores_BT.sigmoid(),)

        size = self.config.optimization.logprobs_micro_batch_size
        (values,) = token_columns(forward, rollouts, size, self._device)
        self.set_values(rollouts, values)
