"""The task's texts, and what the engine samples."""

from vineppo.config.checks.require import require
from vineppo.config.schema import SftConfig, TaskCommon, TrainConfig


def check_task(task: TaskCommon) -> None:
    for key, template, needed in (
        ("task.prompt.template", task.prompt.template, "{question}"),
        ("task.response_template", task.response_template, "{solution}"),
    ):
        require(needed in template, f"{key} must contain {needed}, got {template!r}")
    low, high = getattr(task, "min_operations", 0), getattr(task, "max_operations", 0)
    require(
        low <= high, f"task.min_operations must be at most task.max_operations = {high}, got {low}"
    )


def check_engine(config: TrainConfig | SftConfig) -> None:
    engine, evaluation = config.engine, config.evaluation
    require(
        engine.dtype == config.model.dtype,
        f"engine.dtype must be model.dtype = {config.model.dtype!r}, got {engine.dtype!r}",
    )
    require(
        evaluation.temperature == 0 or evaluation.temperature >= 0.01,
        f"evaluation.temperature must be 0 or at least 0.01, got {evaluation.temperature}",
    )
    require(
        evaluation.temperature > 0 or evaluation.num_samples == 1,
        "evaluation.num_samples must be 1 when evaluation.temperature is 0 (greedy samples are all "
        f"the same), got {evaluation.num_samples}",
    )
    require(
        config.sampling.max_tokens < engine.max_model_len,
        f"sampling.max_tokens must be below engine.max_model_len = {engine.max_model_len}, "
        f"got {config.sampling.max_tokens}",
    )
    for key in ("max_num_seqs", "max_model_len"):
        least = getattr(engine, key)
        require(
            engine.max_num_batched_tokens >= least,
            f"engine.max_num_batched_tokens must be at least engine.{key} = {least}, got "
            f"{engine.max_num_batched_tokens}",
        )
