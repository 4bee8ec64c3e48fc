"""Combinations of keys that each are fine and together are not, refused before a model loads."""

import math
import operator
from typing import Any

from vineppo.config.schema import (
    AdamConfig,
    AdaptiveKl,
    AnyConfig,
    ArithmeticTaskConfig,
    EnsembleCritic,
    ExpectedCuts,
    FusedValues,
    GaeCredit,
    GenerativeValues,
    MaskedImportance,
    PredictorConfig,
    ReturnsReader,
    RewardModelConfig,
    SftConfig,
    TextPairs,
    TrainConfig,
    TreeCredit,
    ViewConfig,
    YesNoCritic,
)
from vineppo.errors import UserError
from vineppo.types import CRITIC, MONTE_CARLO

ORDERS = {"at most": operator.le, "at least": operator.ge, "below": operator.lt}
NUM_SEQUENCES = "rollouts.num_prompts * rollouts.num_samples"
GROUP_ESTIMATORS = ("grpo", "gigpo", "rloo", "martingale", "reinforce_plus_plus_baseline")
# What values an environment's states: whole turns, or through the mask of the policy's tokens.
DIALOGUE_VALUES = (
    "monte_carlo", "group_mean", "pooled", "shrunk", "separate", "shared", "ensemble", "python",
)  # fmt: skip


def require(holds: bool, message: str) -> None:
    """Raises `UserError` with the message, which names the keys, unless it holds."""
    if not holds:
        raise UserError(f"config: {message}")


def at(node: Any, key: str) -> Any:
    """What is at a dotted key of a config; the name of a predictor may have dots of its own."""
    names = node if isinstance(node, dict) else vars(node)
    if key in names:
        return names[key]
    name = max((name for name in names if key.startswith(f"{name}.")), key=len)
    return at(names[name], key.removeprefix(f"{name}."))


def require_order(config: AnyConfig, key: str, order: str, bound: str) -> None:
    """The number at a dotted key is "at most", say, that at another, or the product of several."""
    value = at(config, key)
    limit = math.prod(at(config, factor) for factor in bound.split(" * "))
    require(ORDERS[order](value, limit), f"{key} must be {order} {bound} = {limit}, got {value}")


def require_one_null(config: TrainConfig | SftConfig, first: str, second: str) -> None:
    num_nulls = [at(config, key) for key in (first, second)].count(None)
    require(
        num_nulls == 1,
        f"exactly one of {first} and {second} must be null, got "
        + ("two nulls" if num_nulls else "two values"),
    )


def check_train(config: TrainConfig) -> None:
    """Raises `UserError` naming the keys of the first combination that makes no sense."""
    optimization, sampling = config.optimization, config.sampling
    check_task(config)
    check_environment(config)
    check_credit(config)
    require(
        sampling.top_p == 1.0 or optimization.old_logprobs == "trainer",
        'optimization.old_logprobs must be "trainer" when sampling.top_p < 1 (the engine\'s are '
        f"renormalised over the nucleus), got {optimization.old_logprobs!r}",
    )
    check_critic(config)
    check_reference(config)
    check_importance(config)
    check_policy_loss(config)
    check_engine(config)
    check_updates(config)


def check_sft(config: SftConfig) -> None:
    """Like `check_train`, for `vineppo sft`."""
    check_task(config)
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
            config.task.kind in ("arithmetic", "worded"),
            "model.architecture needs a task with a tokenizer of its own (task.kind 'arithmetic' "
            f"or 'worded'), got task.kind {config.task.kind!r}",
        )
        require(
            config.model.lora is None,
            "model.lora must be null with model.architecture (a new model has nothing to adapt)",
        )
    require(
        config.self_training is None or config.model.path is not None,
        "model.path must name a policy with self_training (a new model has no right answers)",
    )
    check_engine(config)
    check_updates(config)


def check_reward_model(config: RewardModelConfig) -> None:
    """Like `check_train`, for `vineppo reward-model`."""
    if isinstance(config.pairs, TextPairs):
        _check_template(config, "pairs.prompt.template", "{question}")
    require(
        config.model.lora is None,
        "model.lora must be null for a reward model (all of its weights train), got a table",
    )
    check_updates(config)


def check_credit(config: TrainConfig) -> None:
    credit, num_samples = config.credit, config.rollouts.num_samples
    require(
        num_samples >= 2 or credit.kind not in GROUP_ESTIMATORS,
        f"rollouts.num_samples must be at least 2 for credit.kind {credit.kind!r} (it compares the "
        f"rollouts of a problem), got {num_samples}",
    )
    _check_values(config)
    if isinstance(credit, TreeCredit):
        num_leaves, levels = math.prod(credit.branching), len(credit.branching)
        require(
            num_samples == num_leaves,
            "rollouts.num_samples must be the product of credit.branching (the leaves of a tree) = "
            f"{num_leaves}, got {num_samples}",
        )
        before_last = (levels - 1) * credit.tokens_per_level
        require(
            before_last < config.sampling.max_tokens,
            "credit.tokens_per_level must leave tokens of sampling.max_tokens = "
            f"{config.sampling.max_tokens} to the last of {levels} levels, got "
            f"{credit.tokens_per_level}",
        )
    if not isinstance(credit, GaeCredit):
        return
    require_one_null(config, "credit.policy_lambda", "credit.length_adaptive_alpha")
    if credit.segment_max_prob is not None:
        require(
            credit.level == "token",
            "credit.segment_max_prob must be null for credit.level 'step' (tokens make segments), "
            f"got {credit.segment_max_prob}",
        )
        require(
            credit.policy_lambda != 1.0,
            "credit.policy_lambda must be below 1 with credit.segment_max_prob (λ is 1 elsewhere "
            "already), got 1.0",
        )


def _check_values(config: TrainConfig) -> None:
    credit, further = config.credit, config.values.predictors
    held = [MONTE_CARLO] * (credit.monte_carlo is not None) + [CRITIC] * (config.critic is not None)
    for name in further:
        require(
            name not in (MONTE_CARLO, CRITIC, "policy", "trainer", "state.json"),
            f"values.predictors must not be named {MONTE_CARLO}, {CRITIC}, policy, trainer or "
            f"state.json, got {name}",
        )
    for name, own in config.values.predictors.items():
        require(
            own.kind != "oracle" or config.task.kind == "worded",
            f"task.kind must be 'worded' for values.predictors.{name} (an oracle knows no other), "
            f"got {config.task.kind!r}",
        )
        require(
            own.kind != "oracle" or config.reward_model is None,
            f"reward_model must be null for values.predictors.{name} (an oracle knows the "
            "verifier's reward alone), got a table",
        )
        _check_returns_reader(name, own, config)
        _check_probability(name, own, config)
        _check_generative(name, own)
        _check_fused(name, own, config)
    feeding = config.values.credit
    require(
        feeding is None or feeding in (*held, *further),
        "values.credit must be null or one of the run's predictors, "
        f"{', '.join((*held, *further)) or 'of which there are none'}, got {feeding}",
    )
    require(
        feeding is None or credit.own_values is not None,
        f"values.credit must be null for credit.kind {credit.kind!r}, which takes no values, got "
        f"{feeding}",
    )
    require(
        credit.kind != "vine" or credit.num_continuations > 0 or feeding is not None,
        "credit.num_continuations must be at least 1 where values.credit is null, got 0",
    )
    _check_states(config)
    _check_expected(config)
    if credit.kind == "martingale":
        taken = further.get(feeding or "posterior")
        require(
            taken is not None and taken.is_martingale,
            "values.credit must be a martingale, such as one of kind 'posterior', for credit.kind "
            f"'martingale', got {feeding or 'null'}",
        )
    if credit.kind == "doubly_robust":
        taken = further.get(feeding or "")
        is_of_all = taken is not None and (
            taken.monte_carlo is None or not taken.monte_carlo.states
        )
        require(
            is_of_all or (config.critic is not None and feeding in (None, CRITIC)),
            "values.credit must be a predictor of all states' values, such as a critic, for "
            f"credit.kind 'doubly_robust', got {feeding or 'null'}",
        )
    if credit.kind == "gae":
        require(
            config.critic is not None or feeding is not None,
            "critic must be a value model for credit.kind 'gae' where values.credit is null, got "
            "null",
        )
        require(
            feeding in (None, CRITIC) or credit.level == "step" or _gives_tokens(config, feeding),
            f"credit.level must be 'step' with values.credit {feeding} (it values steps), got "
            "'token'",
        )
    require(
        config.critic is None or config.critic.own_model is not None or feeding in (None, CRITIC),
        "critic.kind must be 'separate' where values.credit names another predictor (a shared one "
        "would change the policy that it only measures), got 'shared'",
    )


def _check_states(config: TrainConfig) -> None:
    """What takes the values of some states only."""
    credit, feeding = config.credit, config.values.credit
    own = config.values.predictors.get(feeding or "", credit)
    sampled = None if feeding == CRITIC else own.monte_carlo
    if credit.kind == "vine":
        require(
            credit.states is None or credit.num_continuations > 0,
            "credit.states must be null where credit.num_continuations is 0, got "
            f"{credit.states and credit.states.kind!r}",
        )
        require(
            sampled is not None or not credit.own_return,
            "credit.own_return must be false where values.credit names a predictor without "
            f"continuations (there are no returns to join), got true with {feeding}",
        )
    if sampled is None or sampled.states is None:
        return
    require(
        credit.kind != "gae",
        f"values.predictors.{feeding}.states must be null for credit.kind 'gae' (it takes the "
        f"values of all states), got {sampled.states.kind!r}",
    )
    require(
        credit.kind != "vine" or config.rollouts.num_samples >= 2,
        "rollouts.num_samples must be at least 2 for values of some states (the others' mean "
        "reward is the baseline before the first of them), got 1",
    )


def _check_expected(config: TrainConfig) -> None:
    """States "expected", of the estimator and of all predictors."""
    tables = {f"values.predictors.{name}": own for name, own in config.values.predictors.items()}
    for key, own in ({"credit": config.credit} | tables).items():
        states = own.monte_carlo and own.monte_carlo.states
        if isinstance(states, ExpectedCuts):
            require(
                states.floor <= states.probability,
                f"{key}.states.floor must be at most {key}.states.probability = "
                f"{states.probability}, got {states.floor}",
            )


def _check_returns_reader(name: str, own: PredictorConfig, config: TrainConfig) -> None:
    """One that reads the returns of another predictor's continuations."""
    if not isinstance(own, ReturnsReader) or own.returns_of is None:
        return
    key = f"values.predictors.{name}"
    sampled = [MONTE_CARLO] * (config.credit.monte_carlo is not None)
    sampled += [other for other, its in config.values.predictors.items() if its.monte_carlo]
    require(
        own.returns_of in sampled,
        f"{key}.of must be a predictor of the run that samples continuations, "
        f"{', '.join(sampled) or 'of which there are none'}, got {own.returns_of}",
    )
    others = config.values.predictors
    its = config.credit if own.returns_of == MONTE_CARLO else others[own.returns_of]
    require(
        own.takes_some_states or (its.monte_carlo is not None and its.monte_carlo.states is None),
        f"{key}.of must be a predictor whose states is null (it reads the returns of all states), "
        f"got {own.returns_of}",
    )
    require(
        own.kind != "shrunk" or config.rollouts.num_samples >= 2,
        f"rollouts.num_samples must be at least 2 for {key} of kind 'shrunk' (it compares the "
        f"rollouts of a problem), got {config.rollouts.num_samples}",
    )


def _check_probability(name: str, own: PredictorConfig, config: TrainConfig) -> None:
    """One whose values are probabilities of success, so that rewards must be within [0, 1]."""
    if own.kind not in ("posterior", "privileged", "smoothed", "probe", "generative", "fused"):
        return
    key, grading = f"values.predictors.{name}", config.task.grading
    require(
        grading.reward_path is None,
        f"task.grading.reward_path must be null for {key} of kind {own.kind!r} (rewards must be "
        f"within [0, 1]), got {grading.reward_path!r}",
    )
    _check_bounded_output(f"{key} of kind {own.kind!r} (rewards must be within [0, 1])", config)
    require(
        0 <= (grading.truncated_reward or 0) <= 1,
        f"task.grading.truncated_reward must be null or within [0, 1] for {key} of kind "
        f"{own.kind!r}, got {grading.truncated_reward}",
    )


def _check_fused(name: str, own: PredictorConfig, config: TrainConfig) -> None:
    if not isinstance(own, FusedValues):
        return
    others = {CRITIC: config.critic, **config.values.predictors}
    prior = others.get(own.prior)
    # What the engine samples comes without a pass, in training alone.
    is_read = prior is not None and prior.kind not in ("monte_carlo", "generative", "fused")
    require(
        is_read,
        f"values.predictors.{name}.prior must be another predictor of the run, and none that "
        f"samples, got {own.prior}",
    )


def _check_generative(name: str, own: PredictorConfig) -> None:
    if not isinstance(own, GenerativeValues):
        return
    key = f"values.predictors.{name}"
    require(
        own.num_samples >= 2 or own.training is None,
        f"{key}.num_samples must be at least 2 with {key}.training (an answer's baseline is the "
        f"other answers' score), got {own.num_samples}",
    )
    require(
        own.think_end != "" or own.think_tokens == 0,
        f"{key}.think_end must not be empty with {key}.think_tokens {own.think_tokens}",
    )


def _check_bounded_output(what: str, config: TrainConfig) -> None:
    require(
        config.reward_model is None or config.reward_model.output == "probability",
        f"reward_model.output must be 'probability' for {what}, got 'score'",
    )


def _gives_tokens(config: TrainConfig, name: str) -> bool:
    own = config.values.predictors.get(name)
    return own is not None and own.gives == "tokens"


def check_critic(config: TrainConfig) -> None:
    for key, model in config.value_models.items():
        require(
            key == CRITIC or model.warmup_iterations == 0,
            f"{key}.warmup_iterations must be 0 (the policy's warm-up is critic's), got "
            f"{model.warmup_iterations}",
        )
        _check_bounds(key, model.loss.bounds, config)
        num_samples = config.rollouts.num_samples
        require(
            not isinstance(model, EnsembleCritic) or model.num <= num_samples,
            f"{key}.num must be at most rollouts.num_samples = {num_samples}, got "
            f"{getattr(model, 'num', None)} (each critic has its share of a problem's rollouts)",
        )
        own = CRITIC if isinstance(config.credit, GaeCredit) else None
        is_fed = key.removeprefix("values.predictors.") == (config.values.credit or own)
        require(
            not isinstance(model, EnsembleCritic) or is_fed or not (model.agreed or model.disputed),
            f"{key}.agreed and .disputed must be 0 where other values feed the estimator (a critic "
            "beside them is only measured)",
        )
        require(
            not isinstance(model, YesNoCritic) or model.loss.bounds == (0, 1),
            f"{key}.loss must be of kind 'cross_entropy' from 0 to 1, as a probability is, got "
            f"{model.loss}",
        )
        if model.view is not None:
            _check_view(f"{key}.view", model.view, config)
    critic = config.critic
    if critic is None:
        return
    require_order(config, "critic.warmup_iterations", "at most", "num_iterations")
    if not isinstance(config.credit, GaeCredit):
        require(
            critic.warmup_iterations in (0, config.num_iterations),
            "critic.warmup_iterations must be 0 or num_iterations for a credit.kind other than "
            f"'gae' (a critic beside it is only measured), got {critic.warmup_iterations}",
        )
        require(
            critic.own_model is not None,
            "critic.kind must be 'separate' for a credit.kind other than 'gae' (a shared one would "
            "change the policy that it only measures), got 'shared'",
        )
    if critic.own_model is None:
        _check_bounds(CRITIC, critic.loss.bounds, config)


def _check_view(key: str, view: ViewConfig, config: TrainConfig) -> None:
    """What a critic is told besides, and that its own rollout has no part in it."""
    fields = [f"{{{name}}}" for name in ("answer", "solution", "percent", "rollouts")]
    require(
        any(field in view.template for field in fields),
        f"{key}.template must contain one of {', '.join(fields)}, got {view.template!r}",
    )
    shown, num_samples = view.rollouts, config.rollouts.num_samples
    require(
        (shown is not None) == ("{rollouts}" in view.template),
        f"{key}.rollouts must be null where {key}.template has no {{rollouts}}, and else a table, "
        f"got {view.template!r}",
    )
    if not view.has_siblings:
        return
    require(
        num_samples >= 2,
        f"rollouts.num_samples must be at least 2 for {key}.template {view.template!r} (it tells "
        f"of the problem's other rollouts), got {num_samples}",
    )
    require(
        config.credit.kind != "tree",
        f"credit.kind must not be 'tree' for {key}.template {view.template!r} (the other rollouts "
        "of a tree share this one's actions)",
    )
    if shown is None:
        return
    require(
        shown.num < num_samples,
        f"{key}.rollouts.num must be below rollouts.num_samples = {num_samples}, got {shown.num}",
    )
    for name, text in (("right", shown.right), ("wrong", shown.wrong)):
        require(
            text.count("{response}") == 1,
            f"{key}.rollouts.{name} must contain {{response}} once, got {text!r}",
        )


def _check_bounds(key: str, bounds: tuple[float, float] | None, config: TrainConfig) -> None:
    """A distribution over values must have room for every return."""
    if bounds is None:
        return
    low, high = bounds
    task = config.task
    for source, own in (
        ("grading.reward_path", task.grading.reward_path),
        ("environment", task.environment),
    ):
        require(
            own is None,
            f"{key}.loss.kind must be 'squared_error' with task.{source} (rewards of "
            "one's own have no known bounds), got 'cross_entropy'",
        )
    _check_bounded_output(f"{key}.loss.kind 'cross_entropy' (a score has no bounds)", config)
    require(low < high, f"{key}.loss.low must be below {key}.loss.high = {high}, got {low}")
    truncated = config.task.grading.truncated_reward or 0.0
    require(
        low <= min(0.0, truncated) and high >= max(1.0, truncated),
        f"{key}.loss.low and .high must enclose every reward (0, 1 and "
        f"task.grading.truncated_reward), got {low} and {high}",
    )
    require(
        config.reference.kl_in == "loss",
        f"{key}.loss.kind must be 'squared_error' when reference.kl_in is 'reward' (the KL has "
        "no bound), got 'cross_entropy'",
    )


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
        optimization.resampling is None or config.credit.kind != "tree",
        "optimization.resampling must be null for credit.kind 'tree' (its rollouts stand for "
        f"segments that they share), got {optimization.resampling!r}",
    )


def check_updates(config: AnyConfig) -> None:
    """How the updates of policy and critic are laid out, and what of the policy trains."""
    updates: dict[str, AdamConfig] = {"optimization": config.optimization}
    if isinstance(config, TrainConfig):
        updates |= config.value_models
    for key, update in updates.items():
        if isinstance(config, TrainConfig):
            require_order(config, f"{key}.batch_size", "at most", NUM_SEQUENCES)
        require_order(config, f"{key}.micro_batch_size", "at most", f"{key}.batch_size")
        require(
            config.model.dtype == "float32" or update.zero_stage >= 1,
            f'{key}.zero_stage must be at least 1 when model.dtype is "bfloat16" (DeepSpeed\'s '
            "stage 0 keeps no float32 master weights, and small updates vanish), got 0",
        )
        require(
            update.offload == "nothing" or update.zero_stage >= 1,
            f"{key}.offload must be 'nothing' with {key}.zero_stage 0 (ZeRO moves the states), "
            f"got {update.offload!r}",
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


def check_reference(config: TrainConfig) -> None:
    reference, bounds = config.reference, config.reference.kl_clamp
    if reference.kl_in == "reward":
        require(
            config.credit.monte_carlo is None,
            f"reference.kl_in must be 'loss' for credit.kind {config.credit.kind!r} (the "
            "continuations' returns hold no KL), got 'reward'",
        )
        for kind, whose in (("tree", "a node's value"), ("gigpo", "a turn's return")):
            require(
                config.credit.kind != kind,
                f"reference.kl_in must be 'loss' for credit.kind {kind!r} ({whose} holds no KL), "
                "got 'reward'",
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


def check_task(config: TrainConfig | SftConfig) -> None:
    for key, needed in (
        ("task.prompt.template", "{question}"),
        ("task.response_template", "{solution}"),
    ):
        _check_template(config, key, needed)
    if isinstance(config.task, ArithmeticTaskConfig):
        require_order(config, "task.min_operations", "at most", "task.max_operations")


def _check_template(config: AnyConfig, key: str, needed: str) -> None:
    template = at(config, key)
    require(needed in template, f"{key} must contain {needed}, got {template!r}")


def check_environment(config: TrainConfig) -> None:
    """An environment, and what cuts, rewards and values responses of several turns."""
    environment, credit = config.task.environment, config.credit
    what = f"task.environment of kind {environment.kind!r}" if environment is not None else ""
    is_by_turns = credit.segmenter.kind == "turns"
    if environment is None:
        kinds_of = {"credit": "gigpo", "credit.segmenter": "turns", "task": "verifiers"}
        for table, kind in kinds_of.items():
            require(
                at(config, table).kind != kind,
                f"task.environment must not be null for {table}.kind {kind!r}",
            )
        return
    require(
        is_by_turns,
        f"credit.segmenter.kind must be 'turns' for {what} (a step is a turn and its answer), got "
        f"{credit.segmenter.kind!r}",
    )
    require(
        credit.kind != "tree",
        f"credit.kind must not be 'tree' for {what} (its levels are of tokens, not of turns)",
    )
    for key in ("reward_model", "task.grading.reward_path", "task.grading.num_matching"):
        require(at(config, key) is None, f"{key} must be null for {what}, which rewards")
    kinds: dict[str, str] = {
        f"values.predictors.{name}": own.kind for name, own in config.values.predictors.items()
    }
    if config.critic is not None:
        kinds[CRITIC] = config.critic.kind
    for key, kind in kinds.items():
        require(
            kind in DIALOGUE_VALUES,
            f"{key}.kind must be one of {', '.join(DIALOGUE_VALUES)} for {what}, got {kind}",
        )
    require_order(config, "task.environment.max_turn_tokens", "at most", "sampling.max_tokens")
    if environment.kind != "python":
        task_kind = {"drill": "arithmetic", "verifiers": "verifiers"}[environment.kind]
        require(
            config.task.kind == task_kind,
            f"task.kind must be {task_kind!r} for {what}, got {config.task.kind!r}",
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
    require_order(config, "sampling.max_tokens", "below", "engine.max_model_len")
    for key in ("engine.max_num_seqs", "engine.max_model_len"):
        require_order(config, "engine.max_num_batched_tokens", "at least", key)
