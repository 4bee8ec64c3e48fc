"""What every check is made of."""

from vineppo.config.schema import AdamConfig, TrainConfig
from vineppo.errors import UserError


def require(holds: bool, message: str) -> None:
    """Raises `UserError` with the message, which names the keys, unless it holds."""
    if not holds:
        raise UserError(f"config: {message}")


def require_minibatches(name: str, table: AdamConfig, config: TrainConfig) -> None:
    """An update takes no more sequences than an iteration has."""
    sequences = num_sequences(config)
    require(
        table.batch_size <= sequences,
        f"{name}.batch_size must be at most rollouts.num_prompts * rollouts.num_samples = "
        f"{sequences}, got {table.batch_size}",
    )
    require_micro_batches(name, table.batch_size, table.micro_batch_size)


def require_micro_batches(name: str, batch_size: int, micro_batch_size: int) -> None:
    require(
        micro_batch_size <= batch_size,
        f"{name}.micro_batch_size must be at most {name}.batch_size = {batch_size}, got "
        f"{micro_batch_size}",
    )


def num_sequences(config: TrainConfig) -> int:
    """Rollouts of an iteration."""
    return config.rollouts.num_prompts * config.rollouts.num_samples
