"""Combinations of keys that each are fine and together are not, refused before a model loads."""

import os

from vineppo.config.require import require, require_at_most, require_one
from vineppo.config.schema import (
    AdamConfig,
    AdaptiveKl,
    AnyConfig,
    CriticConfig,
    MaskedImportance,
    SftConfig,
    TrainConfig,
    check_rewards_within,
)
from vineppo.types import CRITIC, MONTE_CARLO, predictor_key

RESERVED = (MONTE_CARLO, CRITIC, "policy", "trainer", "state.json")  # within a checkpoint


def check_train(config: TrainConfig) -> None:
    """Raises `UserError` naming the keys of the first combination that makes no sense."""
    check_credit(config)
    check_reference(config)
    check_policy_loss(config)
    check_engine(config)
    check_updates(config)


def check_sft(config: SftConfig) -> None:
    """Like `check_train`, for `vineppo sft`."""
    shape = config.model.architecture
    require_one("model.path", "model.architecture", config.model.path, shape)
    if shape is not None:
        require(
            shape.hidden_size % (2 * shape.num_heads) == 0
            and shape.num_heads % shape.num_key_value_heads == 0,
            "model.architecture.hidden_size must be a multiple of 2 * num_heads, and num_heads of "
            "num_key_value_heads",
        )
        require(config.model.lora is None, "model.lora must be null with model.architecture")
    check_engine(config)
    check_updates(config)


def check_credit(config: TrainConfig) -> None:
    """Checks of every estimator; the rest is in its own `check`."""
    credit, optimization, found = config.credit, config.optimization, config.rollouts.num_samples
    for what, compares in (
        (f"credit.kind {credit.kind!r}", credit.compares_rollouts),
        ("optimization.mask_equal_rewards", optimization.mask_equal_rewards),
        ("optimization.resampling", optimization.resampling is not None),
    ):
        require(
            found >= 2 or not compares,
            f"rollouts.num_samples must be at least 2 for {what}, got {found}",
        )
    check_values(config)


def check_values(config: TrainConfig) -> None:
    """Checks of all predictors, then of the one that feeds the estimator."""
    for name in config.values.predictors:
        require(
            name not in RESERVED,
            f"values.predictors must not be named {', '.join(RESERVED)}, got {name}",
        )
    for name, options in config.predictors.items():
        if options.predictor.is_probability:
            check_rewards_within(0, 1, f"{predictor_key(name)} of kind {options.kind!r}", config)
    critic = config.critic
    require(
        critic is None or isinstance(critic, CriticConfig),
        f"critic.kind must be 'separate' or 'shared', got {critic and critic.kind!r}",
    )
    _check_feeding(config)


def _check_feeding(config: TrainConfig) -> None:
    """`values.credit`: a predictor that is there, and one that the estimator can take."""
    credit, feeding, critic = config.credit, config.values.credit, config.critic
    require(
        feeding is None or feeding in config.predictors,
        "values.credit must be null or one of the run's predictors "
        f"({', '.join(config.predictors) or 'none'}), got {feeding}",
    )
    require(
        feeding is None or credit.fed_by is not None,
        f"values.credit must be null for credit.kind {credit.kind!r}, which takes no values, got "
        f"{feeding}",
    )
    name = feeding or credit.fed_by
    if credit.reads_differences and name != MONTE_CARLO:
        taken = config.values.predictors.get(name or "")
        require(
            taken is not None and taken.predictor.is_martingale,
            "values.credit must be a martingale, such as one of kind 'posterior', for credit.kind "
            f"{credit.kind!r}, got {feeding or 'null'}",
        )
    require(
        name != CRITIC or critic is not None,
        f"critic must be a value model for credit.kind {credit.kind!r} where values.credit is "
        "null, got null",
    )
    feeds = credit.fed_by == CRITIC and feeding in (None, CRITIC)
    require(
        feeds or not config.has_shared_critic,
        "critic.kind must be 'separate' where its values do not feed credit.kind "
        f"{credit.kind!r} (a shared one would change the policy that it only measures)",
    )
    if critic is not None and credit.fed_by != CRITIC:
        require(
            critic.warmup_iterations in (0, config.num_iterations),
            f"critic.warmup_iterations must be 0 or num_iterations for credit.kind {credit.kind!r} "
            f"(it takes no critic), got {critic.warmup_iterations}",
        )


def check_policy_loss(config: TrainConfig) -> None:
    """Probability ratios, and the rollouts that train."""
    optimization, is_cut = config.optimization, config.sampling.is_cut
    importance, cut = optimization.importance_correction, "sampling.top_p, top_k or min_p cuts"
    require(
        optimization.old_logprobs == "trainer" or not (is_cut or importance),
        f"optimization.old_logprobs must be 'trainer' when {cut} (the engine's cover what is left "
        "alone) and with optimization.importance_correction, got 'engine'",
    )
    require(
        importance is None or not is_cut,
        f"optimization.importance_correction must be null when {cut}, got "
        f"{importance and importance.kind!r}",
    )
    if isinstance(importance, MaskedImportance):
        require(
            importance.min_weight <= 1.0 <= importance.max_weight,
            "optimization.importance_correction.min_weight and max_weight must enclose 1, got "
            f"{importance.min_weight} and {importance.max_weight}",
        )
    require(
        optimization.dual_clip is None or optimization.policy_loss == "ppo",
        "optimization.dual_clip must be null for optimization.policy_loss "
        f"{optimization.policy_loss!r}, got {optimization.dual_clip}",
    )
    require(
        optimization.mask_equal_rewards or not optimization.max_redraws,
        "optimization.mask_equal_rewards must be true with optimization.max_redraws, got false",
    )


def check_updates(config: AnyConfig) -> None:
    """How the updates of policy and critic are laid out, and what of the policy trains."""
    check_stages(config, int(os.environ.get("WORLD_SIZE", "1")))  # `num_ranks()`, without torch
    stage = config.optimization.zero_stage
    for key, update in _updates(config).items():
        if isinstance(config, TrainConfig):
            require_at_most(f"{key}.batch_size", update.batch_size, *_num_sequences(config))
        most = f"{key}.batch_size", update.batch_size
        require_at_most(f"{key}.micro_batch_size", update.micro_batch_size, *most)
        require(
            update.offload == "nothing" or update.zero_stage >= 1,
            f"{key}.offload must be 'nothing' with {key}.zero_stage 0, got {update.offload!r}",
        )
    require(
        stage < 3 or not (isinstance(config, TrainConfig) and config.reads_entropies),
        "optimization.zero_stage must be below 3 where steps or cuts go by entropies, got 3",
    )
    if config.model.lora is not None:
        require(
            stage < 3, f"optimization.zero_stage must be at most 2 with model.lora, got {stage}"
        )
        require(
            not (isinstance(config, TrainConfig) and config.has_shared_critic),
            "critic.kind must be 'separate' with model.lora, got 'shared'",
        )


def check_stages(config: AnyConfig, num_ranks: int) -> None:
    """The ZeRO stages, which depend on the number of ranks."""
    for key, update in _updates(config).items():
        require(
            config.model.dtype == "float32" or update.zero_stage >= 1 or num_ranks <= 1,
            f'{key}.zero_stage must be at least 1 for model.dtype "bfloat16" on several ranks, '
            f"got 0 on {num_ranks}",
        )


def _updates(config: AnyConfig) -> dict[str, AdamConfig]:
    of_values = config.value_models if isinstance(config, TrainConfig) else {}
    return {"optimization": config.optimization, **of_values}


def check_reference(config: TrainConfig) -> None:
    """The KL to the reference policy."""
    reference, bounds = config.reference, config.reference.kl_clamp
    estimator, place, gradient = reference.kl_estimator, reference.kl_in, reference.kl_gradient
    found = reference.path, reference.kl_coef, place
    require(
        estimator is not None or found == (None, 0, "loss"),
        "reference.path must be null, kl_coef 0 and kl_in 'loss' when reference.kl_estimator is "
        f"null, got {found}",
    )
    require(
        place == "loss" or config.credit.monte_carlo is None,
        f"reference.kl_in must be 'loss' for credit.kind {config.credit.kind!r} (the "
        "continuations' returns hold no KL), got 'reward'",
    )
    # A reward has no gradient, and k1's own has the expectation 0.
    needed = "own" if place == "reward" else "k2" if estimator == "k1" else gradient
    require(
        gradient == needed,
        f"reference.kl_gradient must be {needed!r} for reference.kl_in {place!r} and kl_estimator "
        f"{estimator!r}, got {gradient!r}",
    )
    require(
        not reference.kl_importance or (place == "loss" and estimator != "full"),
        "reference.kl_importance must be false when reference.kl_in is 'reward' or kl_estimator "
        "'full', got true",
    )
    require(
        bounds is None or (bounds[0] < bounds[1] and (estimator != "k1" or bounds[0] < 0)),
        "reference.kl_clamp must be null or [low, high] with low < high, and low < 0 for "
        f"reference.kl_estimator 'k1', got {bounds}",
    )
    if isinstance(reference.kl_control, AdaptiveKl):
        require(
            reference.kl_coef > 0,
            "reference.kl_coef must be above 0 when reference.kl_control.kind is 'adaptive', got 0",
        )
        horizon = "reference.kl_control.horizon", reference.kl_control.horizon
        require_at_most(*_num_sequences(config), *horizon)


def _num_sequences(config: TrainConfig) -> tuple[str, int]:
    name = "rollouts.num_prompts * rollouts.num_samples"
    return name, config.rollouts.num_prompts * config.rollouts.num_samples


def check_engine(config: TrainConfig | SftConfig) -> None:
    engine, evaluation, max_tokens = config.engine, config.evaluation, config.sampling.max_tokens
    require(
        engine.dtype == config.model.dtype,
        f"engine.dtype must be model.dtype = {config.model.dtype!r}, got {engine.dtype!r}",
    )
    require(
        evaluation.temperature > 0 or evaluation.num_samples == 1,
        "evaluation.num_samples must be 1 when evaluation.temperature is 0 (greedy), got "
        f"{evaluation.num_samples}",
    )
    length, batched = engine.max_model_len, engine.max_num_batched_tokens
    require(
        max_tokens < length,
        f"sampling.max_tokens must be below engine.max_model_len = {length}, got {max_tokens}",
    )
    for key, number in (("max_num_seqs", engine.max_num_seqs), ("max_model_len", length)):
        require_at_most(f"engine.{key}", number, "engine.max_num_batched_tokens", batched)
