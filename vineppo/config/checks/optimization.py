"""The updates: importance weights, precision, ZeRO and adapters."""

from vineppo.config.checks.require import require
from vineppo.config.schema import (
    AdamConfig,
    MaskedImportance,
    SftConfig,
    TrainConfig,
)


def check_importance(config: TrainConfig) -> None:
    optimization = config.optimization
    positive, truncated = optimization.positive_examples, config.task.grading.truncated_reward
    require(
        positive is None or positive.min_reward < max(1.0, truncated or 0.0),
        "optimization.positive_examples.min_reward must be below the largest reward, which it "
        f"excludes, got {positive.min_reward if positive else None}",
    )
    importance = optimization.importance_correction
    if importance is None:
        return
    require(
        optimization.old_logprobs == "trainer",
        "optimization.old_logprobs must be 'trainer' with optimization.importance_correction (the "
        "engine's as denominator already correct for the mismatch), got 'engine'",
    )
    if isinstance(importance, MaskedImportance):
        require(
            importance.min_weight <= 1.0 <= importance.max_weight,
            "optimization.importance_correction.min_weight and max_weight must enclose 1, got "
            f"{importance.min_weight} and {importance.max_weight}",
        )


def check_precision(config: TrainConfig | SftConfig) -> None:
    require(
        config.model.dtype == "float32" or config.optimization.zero_stage >= 1,
        'optimization.zero_stage must be at least 1 when model.dtype is "bfloat16" (DeepSpeed\'s '
        "stage 0 keeps no float32 master weights, and small updates vanish), got 0",
    )
    critic = config.separate_critic if isinstance(config, TrainConfig) else None
    require(
        critic is None or config.model.dtype == "float32" or critic.zero_stage >= 1,
        'critic.zero_stage must be at least 1 when model.dtype is "bfloat16", got 0',
    )


def check_offload(config: TrainConfig | SftConfig) -> None:
    tables: dict[str, AdamConfig] = {"optimization": config.optimization}
    if isinstance(config, TrainConfig) and config.separate_critic is not None:
        tables["critic"] = config.separate_critic
    for name, table in tables.items():
        require(
            table.offload == "nothing" or table.zero_stage >= 1,
            f"{name}.offload must be 'nothing' with {name}.zero_stage 0 (ZeRO moves the states), "
            f"got {table.offload!r}",
        )


def check_lora(config: TrainConfig | SftConfig) -> None:
    if config.model.lora is None:
        return
    stage = config.optimization.zero_stage
    require(
        stage < 3,
        "optimization.zero_stage must be at most 2 with model.lora (what trains is small, and what "
        f"is merged must be whole), got {stage}",
    )
    require(
        not (isinstance(config, TrainConfig) and config.has_shared_critic),
        "critic.kind must be 'separate' with model.lora (a shared one is saved with the backbone's "
        "own weights), got 'shared'",
    )
