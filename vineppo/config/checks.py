"""Combinations of keys that each are fine and together are not, refused before a model loads."""

import os

from vineppo.config.require import at, require, require_one_null, require_order
from vineppo.config.schema import (
    AdamConfig,
    AdaptiveKl,
    AnyConfig,
    MaskedImportance,
    SftConfig,
    Task,
    TrainConfig,
)
from vineppo.config.value_checks import check_values

NUM_SEQUENCES = "rollouts.num_prompts * rollouts.num_samples"


def check_train(config: TrainConfig) -> None:
    """Raises `UserError` naming the keys of the first combination that makes no sense."""
    optimization, sampling = config.optimization, config.sampling
    check_credit(config)
    require(
        sampling.top_p == 1.0 or optimization.old_logprobs == "trainer",
        'optimization.old_logprobs must be "trainer" when sampling.top_p < 1 (the engine\'s are '
        f"renormalised over the nucleus), got {optimization.old_logprobs!r}",
    )
    check_reference(config)
    check_importance(config)
    check_policy_loss(config)
    check_engine(config)
    check_updates(config)


def check_sft(config: SftConfig) -> None:
    """Like `check_train`, for `vineppo sft`."""
    require(
        config.task.environment is None,
        "task.environment must be null for `vineppo sft` (a demonstration is one turn)",
    )
    require_one_null(config, "model.path", "model.architecture")
    shape = config.model.architecture
    if shape is not None:
        require(
            shape.hidden_size % (2 * shape.num_heads) == 0
            and shape.num_heads % shape.num_key_value_heads == 0,
            "model.architecture.hidden_size must be a multiple of 2 * num_heads, and num_heads of "
            "num_key_value_heads",
        )
        require(
            type(config.task).build_tokenizer is not Task.build_tokenizer,
            "model.architecture needs a task with a tokenizer of its own, such as 'arithmetic', "
            f"got task.kind {config.task.kind!r}",
        )
        require(
            config.model.lora is None,
            "model.lora must be null with model.architecture (a new model has nothing to adapt)",
        )
    check_engine(config)
    check_updates(config)


def check_credit(config: TrainConfig) -> None:
    """What holds for every estimator; the rest is in its own `check`."""
    credit, num_samples = config.credit, config.rollouts.num_samples
    require(
        num_samples >= 2 or not credit.compares_rollouts,
        f"rollouts.num_samples must be at least 2 for credit.kind {credit.kind!r} (it compares the "
        f"rollouts of a problem), got {num_samples}",
    )
    require(
        not credit.shares_tokens or config.optimization.resampling is None,
        f"optimization.resampling must be null for credit.kind {credit.kind!r} (its rollouts stand "
        f"for segments that they share), got {config.optimization.resampling!r}",
    )
    check_values(config)


def check_importance(config: TrainConfig) -> None:
    optimization = config.optimization
    positive, importance = optimization.positive_examples, optimization.importance_correction
    if positive is not None:
        require(
            positive.min_reward < max(1.0, config.task.grading.truncated_reward or 0.0),
            "optimization.positive_examples.min_reward must be below the largest reward, which it "
            f"excludes, got {positive.min_reward}",
        )
    require(
        importance is None or optimization.old_logprobs == "trainer",
        "optimization.old_logprobs must be 'trainer' with optimization.importance_correction (the "
        "engine's as denominator already correct for the mismatch), got 'engine'",
    )
    require(
        importance is None or config.sampling.top_p == 1.0,
        "optimization.importance_correction must be null when sampling.top_p < 1 (the engine's "
        "log-probabilities are renormalised over the nucleus, so the weights would be its mass), "
        f"got {importance and importance.kind!r}",
    )
    if isinstance(importance, MaskedImportance):
        require(
            importance.min_weight <= 1.0 <= importance.max_weight,
            "optimization.importance_correction.min_weight and max_weight must enclose 1, got "
            f"{importance.min_weight} and {importance.max_weight}",
        )


def check_policy_loss(config: TrainConfig) -> None:
    """The loss's own clip, and what is drawn or left out by the rewards of a problem's rollouts."""
    optimization, num_samples = config.optimization, config.rollouts.num_samples
    require(
        optimization.dual_clip is None or optimization.policy_loss == "ppo",
        "optimization.dual_clip must be null for optimization.policy_loss "
        f"{optimization.policy_loss!r}, got {optimization.dual_clip}",
    )
    for key, is_set in (
        ("mask_equal_rewards", optimization.mask_equal_rewards),
        ("resampling", optimization.resampling is not None),
    ):
        require(
            num_samples >= 2 or not is_set,
            f"rollouts.num_samples must be at least 2 with optimization.{key} (it compares the "
            f"rollouts of a problem), got {num_samples}",
        )
    require(
        optimization.mask_equal_rewards or not optimization.max_redraws,
        "optimization.mask_equal_rewards must be true with optimization.max_redraws (it says in "
        "whose place problems are drawn), got false",
    )


def check_updates(config: AnyConfig) -> None:
    """How the updates of policy and critic are laid out, and what of the policy trains."""
    check_stages(config, int(os.environ.get("WORLD_SIZE", "1")))  # `num_ranks()`, without torch
    for key, update in _updates(config).items():
        if isinstance(config, TrainConfig):
            require_order(config, f"{key}.batch_size", "at most", NUM_SEQUENCES)
        require_order(config, f"{key}.micro_batch_size", "at most", f"{key}.batch_size")
        require(
            update.offload == "nothing" or update.zero_stage >= 1,
            f"{key}.offload must be 'nothing' with {key}.zero_stage 0 (ZeRO moves the states), "
            f"got {update.offload!r}",
        )
    if isinstance(config, TrainConfig) and config.reads_entropies:
        require(
            config.optimization.zero_stage < 3,
            "optimization.zero_stage must be below 3 where steps or cuts go by entropies (a "
            "rank passes its own rollouts when they are there, and stage 3 needs all ranks)",
        )
    if config.model.lora is not None:
        require(
            config.optimization.zero_stage < 3,
            "optimization.zero_stage must be at most 2 with model.lora (what trains is small, and "
            "what is merged must be whole), got 3",
        )
        require(
            not (isinstance(config, TrainConfig) and config.has_shared_critic),
            "critic.kind must be 'separate' with model.lora (a shared one is saved with the "
            "backbone's own weights), got 'shared'",
        )


def check_stages(config: AnyConfig, num_ranks: int) -> None:
    """ZeRO's, where it depends on the ranks."""
    for key, update in _updates(config).items():
        require(
            config.model.dtype == "float32" or update.zero_stage >= 1 or num_ranks <= 1,
            f'{key}.zero_stage must be at least 1 when model.dtype is "bfloat16" and there are '
            f"several ranks (each would keep the sum of all gradients), got 0 on {num_ranks}",
        )


def _updates(config: AnyConfig) -> dict[str, AdamConfig]:
    of_values = config.value_models if isinstance(config, TrainConfig) else {}
    return {"optimization": config.optimization, **of_values}


def check_reference(config: TrainConfig) -> None:
    reference, bounds = config.reference, config.reference.kl_clamp
    found = reference.path, reference.kl_coef, reference.kl_in
    require(
        reference.kl_estimator is not None or found == (None, 0, "loss"),
        "reference.path must be null, kl_coef 0 and kl_in 'loss' when reference.kl_estimator is "
        f"null (there is no reference then), got {found}",
    )
    if reference.kl_in == "reward":
        require(
            config.credit.monte_carlo is None,
            f"reference.kl_in must be 'loss' for credit.kind {config.credit.kind!r} (the "
            "continuations' returns hold no KL), got 'reward'",
        )
        require(
            reference.kl_gradient == "own",
            "reference.kl_gradient must be 'own' when reference.kl_in is 'reward' (a reward has no "
            f"gradient), got {reference.kl_gradient!r}",
        )
    else:
        require(
            reference.kl_estimator != "k1" or reference.kl_gradient == "k2",
            "reference.kl_gradient must be 'k2' for reference.kl_estimator 'k1' in the loss (its "
            f"own gradient has expectation 0), got {reference.kl_gradient!r}",
        )
    require(
        not reference.kl_importance
        or (reference.kl_in == "loss" and reference.kl_estimator != "full"),
        "reference.kl_importance must be false when reference.kl_in is 'reward' or kl_estimator is "
        "'full' (it weighs the sampled tokens in the loss), got true",
    )
    if bounds is not None:
        require(
            bounds[0] < bounds[1],
            f"reference.kl_clamp must be null or [low, high] with low < high, got {bounds}",
        )
        require(
            reference.kl_estimator != "k1" or bounds[0] < 0,
            "reference.kl_clamp must be null or begin below 0 for reference.kl_estimator 'k1' "
            f"(which may be negative), got {bounds}",
        )
    if isinstance(reference.kl_control, AdaptiveKl):
        require(
            reference.kl_coef > 0,
            "reference.kl_coef must be above 0 when reference.kl_control.kind is 'adaptive' (it is "
            "multiplied), got 0",
        )
        require_order(config, "reference.kl_control.horizon", "at least", NUM_SEQUENCES)


def check_template(config: AnyConfig, key: str, needed: str) -> None:
    template = at(config, key)
    require(needed in template, f"{key} must contain {needed}, got {template!r}")


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
    require_order(config, "sampling.max_tokens", "below", "engine.max_model_len")
    for key in ("engine.max_num_seqs", "engine.max_model_len"):
        require_order(config, "engine.max_num_batched_tokens", "at least", key)
