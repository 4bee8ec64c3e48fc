"""A critic that is a scalar head on the policy's backbone, trained in the policy's update."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from vineppo.batching import UpdateSizes
from vineppo.config.require import require
from vineppo.config.schema import CriticConfig, TrainConfig
from vineppo.config.schema.scalars import Positive, PositiveFraction
from vineppo.models import LoadedModel
from vineppo.policy import Policy, Summand
from vineppo.token_scores import ForwardOptions, TokenScores, token_columns
from vineppo.types import CRITIC, Rollout, TrainBatch
from vineppo.values import ValuePredictor
from vineppo.values.heads import (
    HEAD,
    ValueHead,
    save_value_model,
    set_targets,
    value_objective,
    values_of,
)
from vineppo.values.separate import FrozenValueModel


@dataclass(frozen=True, kw_only=True)
class SharedCritic(CriticConfig):
    """A scalar head on the policy's backbone, trained in the policy's update."""

    trains_with_policy = True

    coef: Positive  # of the value loss beside the policy's
    head_learning_rate: PositiveFraction

    def check(self, key: str, config: TrainConfig) -> None:
        require(
            key == CRITIC,
            f"{key}.kind must not be 'shared' (one head trains with the policy, that of critic)",
        )
        super().check(key, config)


class SharedValueHead(ValuePredictor):
    """V(s) of the policy's hidden states; its state is in the policy's optimizer.

    The values come with the policy's pass, before the temperature, whatever that is.
    """

    Config = SharedCritic
    gives = "tokens"
    takes_turns = True

    def __init__(
        self, name: str, config: TrainConfig, critic: SharedCritic, loaded: LoadedModel
    ) -> None:
        super().__init__(name, config, critic)
        self._critic = critic
        model = loaded.model
        self.head: ValueHead = ValueHead(
            model.config.hidden_size, model.dtype, critic.head_init, config.seed
        )
        self.head_learning_rate = critic.head_learning_rate

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: SharedCritic, directory: Path | None
    ) -> ValuePredictor | None:
        return FrozenValueModel.at_checkpoint(name, config, options, directory)

    def start(self, policy: Policy) -> None:
        self._policy = policy

    def from_policy(self, scores: TokenScores) -> torch.Tensor:
        return values_of(scores.value_outputs_BT, self._critic.loss)

    def estimate_branches(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:  # noqa: ARG002
        """A pass of the policy, as the branches are not in the one that trains."""

        def values_in(batch: TrainBatch) -> tuple[torch.Tensor]:
            options = ForwardOptions(self.config.sampling.temperature, only_values=True)
            return (self.from_policy(self._policy.scores(batch, options)),)

        size = self.config.optimization.logprobs_micro_batch_size
        (values,) = token_columns(values_in, branches, size, self._policy.device)
        self.set_values(branches, values)

    def prepare_update(self, rollouts: Sequence[Rollout]) -> None:
        self.head.measure_offset(rollouts, self._critic.loss)
        set_targets(rollouts, self.name, self.config)

    @property
    def update_columns(self) -> tuple[str, ...]:
        return self.column, f"targets/{self.name}"

    def policy_loss(
        self, sizes: UpdateSizes, batch: TrainBatch, scores: TokenScores
    ) -> tuple[float, Summand]:
        outputs_BT = scores.value_outputs_BT
        loss = value_objective(self._critic.loss, self.name, sizes, batch, outputs_BT)
        return self._critic.coef, loss

    def save_hf(self, directory: Path) -> None:
        """A separate classifier around the backbone, which is written a second time."""
        from transformers import AutoModelForSequenceClassification

        policy = self._policy
        config = copy.deepcopy(policy.hf_model.config)
        config.num_labels = 1
        with torch.device("meta"):
            classifier = AutoModelForSequenceClassification.from_config(
                config, dtype=policy.hf_model.dtype
            )
        classifier.set_submodule(classifier.base_model_prefix, policy.hf_model.base_model)
        classifier.set_submodule(HEAD, self.head)
        weights = policy.deepspeed.named_weights(classifier)
        save_value_model(classifier, policy.tokenizer, weights, self._critic.loss, directory)
