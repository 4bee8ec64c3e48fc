"""Combinations of keys that each are fine and together are not, refused before a model loads."""

from vineppo.config.schema import SftConfig, TaskCommon, TrainConfig
from vineppo.errors import UserError


def check_train(config: TrainConfig) -> None:
    """Raises `UserError` naming the keys of the first combination that makes no sense."""
    sequences = config.rollouts.num_prompts * config.rollouts.num_samples
    optimization, sampling = config.optimization, config.sampling
    _check_task(config.task)
    _require(
        optimization.batch_size <= sequences,
        f"optimization.batch_size must be at most rollouts.num_prompts * rollouts.num_samples = "
        f"{sequences}, got {optimization.batch_size}",
    )
    _require(
        optimization.micro_batch_size <= optimization.batch_size,
        f"optimization.micro_batch_size must be at most optimization.batch_size = "
        f"{optimization.batch_size}, got {optimization.micro_batch_size}",
    )
    _require(
        sampling.top_p == 1.0 or optimization.old_logprobs == "trainer",
        'optimization.old_logprobs must be "trainer" when sampling.top_p < 1 (the engine\'s are '
        f"renormalised over the nucleus), got {optimization.old_logprobs!r}",
    )
    _check_engine(config)
    _check_precision(config)


def check_sft(config: SftConfig) -> None:
    """Like `check_train`, for `vineppo sft`."""
    _check_task(config.task)
    model, optimization = config.model, config.optimization
    _require(
        (model.path is None) != (model.architecture is None),
        "exactly one of model.path and model.architecture must be null, got "
        + ("two nulls" if model.path is None else "two values"),
    )
    shape = model.architecture
    _require(
        shape is None
        or (
            shape.hidden_size % (2 * shape.num_heads) == 0
            and shape.num_heads % shape.num_key_value_heads == 0
        ),
        "model.architecture.hidden_size must be a multiple of 2 * num_heads, and num_heads of "
        "num_key_value_heads",
    )
    _require(
        model.architecture is None or config.task.kind == "arithmetic",
        'model.architecture needs a task with a tokenizer of its own (task.kind "arithmetic"), '
        f"got task.kind {config.task.kind!r}",
    )
    _require(
        optimization.micro_batch_size <= optimization.batch_size,
        f"optimization.micro_batch_size must be at most optimization.batch_size = "
        f"{optimization.batch_size}, got {optimization.micro_batch_size}",
    )
    _check_engine(config)
    _check_precision(config)


def _check_precision(config: TrainConfig | SftConfig) -> None:
    _require(
        config.model.dtype == "float32" or config.optimization.zero_stage >= 1,
        'optimization.zero_stage must be at least 1 when model.dtype is "bfloat16" (DeepSpeed\'s '
        "stage 0 keeps no float32 master weights, and small updates vanish), got 0",
    )


def _check_task(task: TaskCommon) -> None:
    for key, template, needed in (
        ("task.prompt.template", task.prompt.template, "{question}"),
        ("task.response_template", task.response_template, "{solution}"),
    ):
        _require(needed in template, f"{key} must contain {needed}, got {template!r}")
    low, high = getattr(task, "min_operations", 0), getattr(task, "max_operations", 0)
    _require(
        low <= high, f"task.min_operations must be at most task.max_operations = {high}, got {low}"
    )


def _check_engine(config: TrainConfig | SftConfig) -> None:
    engine, evaluation = config.engine, config.evaluation
    _require(
        engine.dtype == config.model.dtype,
        f"engine.dtype must be model.dtype = {config.model.dtype!r}, got {engine.dtype!r}",
    )
    _require(
        evaluation.temperature == 0 or evaluation.temperature >= 0.01,
        f"evaluation.temperature must be 0 or at least 0.01, got {evaluation.temperature}",
    )
    _require(
        evaluation.temperature > 0 or evaluation.num_samples == 1,
        "evaluation.num_samples must be 1 when evaluation.temperature is 0 (greedy samples are all "
        f"the same), got {evaluation.num_samples}",
    )
    _require(
        config.sampling.max_tokens < engine.max_model_len,
        f"sampling.max_tokens must be below engine.max_model_len = {engine.max_model_len}, "
        f"got {config.sampling.max_tokens}",
    )
    for key in ("max_num_seqs", "max_model_len"):
        least = getattr(engine, key)
        _require(
            engine.max_num_batched_tokens >= least,
            f"engine.max_num_batched_tokens must be at least engine.{key} = {least}, got "
            f"{engine.max_num_batched_tokens}",
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise UserError(f"config: {message}")
