"""Combinations of keys that each are fine and together are not, refused before a model loads."""

from vineppo.config.checks.credit import check_credit
from vineppo.config.checks.critic import check_critic
from vineppo.config.checks.optimization import (
    check_importance,
    check_lora,
    check_offload,
    check_precision,
)
from vineppo.config.checks.reference import check_reference
from vineppo.config.checks.require import require, require_micro_batches, require_minibatches
from vineppo.config.checks.sampling import check_engine, check_task
from vineppo.config.schema import SftConfig, TrainConfig

__all__ = ["check_sft", "check_train"]


def check_train(config: TrainConfig) -> None:
    """Raises `UserError` naming the keys of the first combination that makes no sense."""
    optimization, sampling = config.optimization, config.sampling
    check_task(config.task)
    check_credit(config)
    require_minibatches("optimization", optimization, config)
    require(
        sampling.top_p == 1.0 or optimization.old_logprobs == "trainer",
        'optimization.old_logprobs must be "trainer" when sampling.top_p < 1 (the engine\'s are '
        f"renormalised over the nucleus), got {optimization.old_logprobs!r}",
    )
    check_critic(config)
    check_reference(config)
    check_importance(config)
    check_engine(config)
    check_precision(config)
    check_offload(config)
    check_lora(config)


def check_sft(config: SftConfig) -> None:
    """Like `check_train`, for `vineppo sft`."""
    check_task(config.task)
    model, optimization = config.model, config.optimization
    require(
        (model.path is None) != (model.architecture is None),
        "exactly one of model.path and model.architecture must be null, got "
        + ("two nulls" if model.path is None else "two values"),
    )
    shape = model.architecture
    require(
        shape is None
        or (
            shape.hidden_size % (2 * shape.num_heads) == 0
            and shape.num_heads % shape.num_key_value_heads == 0
        ),
        "model.architecture.hidden_size must be a multiple of 2 * num_heads, and num_heads of "
        "num_key_value_heads",
    )
    require(
        model.architecture is None or config.task.kind == "arithmetic",
        'model.architecture needs a task with a tokenizer of its own (task.kind "arithmetic"), '
        f"got task.kind {config.task.kind!r}",
    )
    require_micro_batches("optimization", optimization.batch_size, optimization.micro_batch_size)
    require(
        model.lora is None or model.architecture is None,
        "model.lora must be null with model.architecture (a new model has nothing to adapt)",
    )
    check_engine(config)
    check_precision(config)
    check_offload(config)
    check_lora(config)
