"""Value predictors: combinations of keys that each are fine and together are not."""

from vineppo.config.require import require
from vineppo.config.schema import CriticConfig, TrainConfig
from vineppo.config.schema.values import check_unit_rewards
from vineppo.types import CRITIC, MONTE_CARLO, predictor_key


def check_values(config: TrainConfig) -> None:
    """What holds for all predictors, then what feeds the estimator."""
    for name, own in config.predictors.items():
        require(
            name not in (MONTE_CARLO, CRITIC, "policy", "trainer", "state.json")
            or name not in config.values.predictors,
            f"values.predictors must not be named {MONTE_CARLO}, {CRITIC}, policy, trainer or "
            f"state.json, got {name}",
        )
        if own.predictor.is_probability:
            check_unit_rewards(f"{predictor_key(name)} of kind {own.kind!r}", config)
    require(
        config.critic is None or isinstance(config.critic, CriticConfig),
        "critic.kind must be that of a value model, such as 'separate' or 'shared', got "
        f"{config.critic and config.critic.kind!r}",
    )
    _check_feeding(config)
    _check_states(config)
    _check_beside(config)


def _check_feeding(config: TrainConfig) -> None:
    """`values.credit`: a predictor that is there, and one that the estimator can take."""
    credit, further = config.credit, config.values.predictors
    feeding = config.values.credit
    require(
        feeding is None or feeding in config.predictors,
        "values.credit must be null or one of the run's predictors "
        f"({', '.join(config.predictors) or 'none'}), got {feeding}",
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
    if credit.kind == "martingale" or (credit.kind == "joined" and feeding is not None):
        taken = further.get(feeding or "posterior")
        or_null = "null or " if credit.kind == "joined" else ""
        require(
            taken is not None and taken.predictor.is_martingale,
            f"values.credit must be {or_null}a martingale, such as one of kind 'posterior', for "
            "credit.kind "
            f"{credit.kind!r}, got {feeding or 'null'}",
        )
    if credit.kind == "doubly_robust":
        taken = further.get(feeding or "")
        sampled = config.continuations.get(feeding or "")
        is_of_all = taken is not None and (sampled is None or not sampled.states)
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
        if credit.bootstrap_truncated:
            _check_bootstrapping(config, feeding)
    require(
        not config.has_shared_critic or feeding in (None, CRITIC),
        "critic.kind must be 'separate' where values.credit names another predictor (a shared one "
        "would change the policy that it only measures), got 'shared'",
    )


def _check_bootstrapping(config: TrainConfig, feeding: str | None) -> None:
    """A value in place of the reward of a truncated response."""
    require(
        feeding in (None, CRITIC) or _gives_tokens(config, feeding),
        "values.credit must be a predictor of tokens' values, such as a critic, with "
        f"credit.bootstrap_truncated (it values the end of a response), got {feeding}",
    )
    require(
        config.task.environment is None,
        "credit.bootstrap_truncated must be false with task.environment, got true",
    )
    for key, why in (
        ("mask_truncated", "nothing of what is bootstrapped would train the policy"),
        ("mask_equal_rewards", "truncated responses all count as reward 0"),
    ):
        require(
            not getattr(config.optimization, key),
            f"optimization.{key} must be false with credit.bootstrap_truncated ({why}), got true",
        )
    require(
        config.task.grading.truncated_reward == 0,
        "task.grading.truncated_reward must be 0 with credit.bootstrap_truncated (a value stands "
        f"in its place), got {config.task.grading.truncated_reward}",
    )


def _check_states(config: TrainConfig) -> None:
    """What takes the values of some states only."""
    credit, feeding = config.credit, config.values.credit
    sampled = config.continuations.get(feeding or MONTE_CARLO)
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


def _check_beside(config: TrainConfig) -> None:
    """A critic beside another estimator than `gae`."""
    critic, credit = config.critic, config.credit
    if critic is None or credit.kind == "gae":
        return
    require(
        critic.warmup_iterations in (0, config.num_iterations),
        "critic.warmup_iterations must be 0 or num_iterations for a credit.kind other than "
        f"'gae' (a critic beside it is only measured), got {critic.warmup_iterations}",
    )
    require(
        not config.has_shared_critic,
        "critic.kind must be 'separate' for a credit.kind other than 'gae' (a shared one would "
        "change the policy that it only measures), got 'shared'",
    )


def _gives_tokens(config: TrainConfig, name: str) -> bool:
    own = config.values.predictors.get(name)
    return own is not None and own.predictor.gives == "tokens"
