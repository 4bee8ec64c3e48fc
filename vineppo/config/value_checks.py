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
    _check_beside(config)


def _check_feeding(config: TrainConfig) -> None:
    """`values.credit`: a predictor that is there, and one that the estimator can take."""
    credit, feeding = config.credit, config.values.credit
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
        or_null = "null or " if credit.fed_by == MONTE_CARLO else ""
        require(
            taken is not None and taken.predictor.is_martingale,
            f"values.credit must be {or_null}a martingale, such as one of kind 'posterior', for "
            f"credit.kind {credit.kind!r}, got {feeding or 'null'}",
        )
    require(
        name != CRITIC or config.critic is not None,
        f"critic must be a value model for credit.kind {credit.kind!r} where values.credit is "
        "null, got null",
    )
    require(
        not config.has_shared_critic or feeding in (None, CRITIC),
        "critic.kind must be 'separate' where values.credit names another predictor (a shared one "
        "would change the policy that it only measures), got 'shared'",
    )


def _check_beside(config: TrainConfig) -> None:
    """A critic that feeds no estimator of critics' values is only measured."""
    critic, kind = config.critic, config.credit.kind
    if critic is None or config.credit.fed_by == CRITIC:
        return
    require(
        critic.warmup_iterations in (0, config.num_iterations),
        f"critic.warmup_iterations must be 0 or num_iterations for credit.kind {kind!r} (a critic "
        f"beside it is only measured), got {critic.warmup_iterations}",
    )
    require(
        not config.has_shared_critic,
        f"critic.kind must be 'separate' for credit.kind {kind!r} (a shared one would change the "
        "policy that it only measures), got 'shared'",
    )
