"""From the head's output to values, and the loss that trains it. Pure."""

import torch

from vineppo.config.schema import CrossEntropy, SquaredError
from vineppo.losses import cross_entropy, squared_error

ValueLoss = SquaredError | CrossEntropy


def values_of(outputs: torch.Tensor, loss: ValueLoss) -> torch.Tensor:
    """V = the head's output; for the cross-entropy V = low + (high − low) · sigmoid(output).

    Low 0, high 1 and an output of 0 give V = 0.5.
    """
    if isinstance(loss, SquaredError):
        return outputs
    return loss.low + (loss.high - loss.low) * torch.sigmoid(outputs)


def value_loss(
    outputs: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, loss: ValueLoss
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of every token, and where the clip took its gradient away; all of one shape."""
    if isinstance(loss, SquaredError):
        return squared_error(outputs, old_values, returns, loss.clip)
    losses = cross_entropy(outputs, returns, loss.low, loss.high)
    return losses, torch.zeros_like(losses, dtype=torch.bool)
