"""A scalar head on the policy's backbone, trained in the policy's update."""

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from vineppo.config.schema import SharedCritic
from vineppo.critic.value_loss import values_of
from vineppo.critic.value_model import HEAD, save_value_model
from vineppo.policy import Policy
from vineppo.token_scores import ForwardOptions
from vineppo.types import TrainBatch


class SharedValueHead:
    """`Critic` whose backbone is the policy's; its state is in the policy's optimizer."""

    def __init__(self, config: SharedCritic, policy: Policy, head: nn.Module) -> None:
        self._config = config
        self._policy = policy
        self._head = head

    @torch.no_grad()
    def values(self, batch: TrainBatch) -> torch.Tensor:
        # The values come before the temperature, whatever it is.
        outputs_BT = self._policy.scores(batch, ForwardOptions(temperature=1.0)).value_outputs_BT
        return (values_of(outputs_BT, self._config.loss) * batch.response_mask_BT).cpu()

    def values_of_outputs(self, outputs_T: Sequence[float]) -> tuple[float, ...]:
        """The values of outputs that a pass of the policy gave already."""
        return tuple(values_of(torch.tensor(outputs_T), self._config.loss).tolist())

    def save_hf(self, directory: Path) -> None:
        """A classifier of its own around the backbone, which is written a second time."""
        from transformers import AutoModelForSequenceClassification

        policy = self._policy
        config = copy.deepcopy(policy.hf_model.config)
        config.num_labels = 1
        with torch.device("meta"):
            classifier = AutoModelForSequenceClassification.from_config(
                config, dtype=policy.hf_model.dtype
            )
        setattr(classifier, classifier.base_model_prefix, policy.hf_model.base_model)
        setattr(classifier, HEAD, self._head)
        weights = policy.deepspeed.named_weights(classifier)
        save_value_model(classifier, policy.tokenizer, weights, self._config.loss, directory)

    @property
    def leaves_while_sampling(self) -> bool:
        return False

    def offload(self) -> None:
        """Nothing: the policy's states are its own."""

    def reload(self) -> None: ...

    def save_state(self, directory: Path) -> None:
        """Nothing: the policy's state holds the head."""

    def load_state(self, directory: Path) -> None: ...
