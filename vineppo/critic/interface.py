"""What the loop asks of a critic."""

from pathlib import Path
from typing import Protocol

import torch

from vineppo.types import TrainBatch


class Critic(Protocol):
    """V of the state before every response token. It sees no temperature."""

    def values(self, batch: TrainBatch) -> torch.Tensor:
        """[B, T] on the CPU, without gradient, 0 outside the response."""
        ...

    def save_hf(self, directory: Path) -> None:
        """A sequence-classification model with one label, loadable by transformers."""
        ...

    @property
    def leaves_while_sampling(self) -> bool: ...

    def offload(self) -> None:
        """See `DeepSpeedModule.offload`."""
        ...

    def reload(self) -> None: ...

    def save_state(self, directory: Path) -> None:
        """What training on needs and the policy's state does not hold."""
        ...

    def load_state(self, directory: Path) -> None: ...
