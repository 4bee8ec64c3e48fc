"""The estimator against what is sampled, and against the values that feed it."""

from vineppo.config.checks.require import require
from vineppo.config.schema import GaeCredit, TrainConfig
from vineppo.types import CRITIC, MONTE_CARLO

GROUP_ESTIMATORS = ("grpo", "rloo", "reinforce_plus_plus_baseline")


def check_credit(config: TrainConfig) -> None:
    credit, num_samples = config.credit, config.rollouts.num_samples
    require(
        num_samples >= 2 or credit.kind not in GROUP_ESTIMATORS,
        f"rollouts.num_samples must be at least 2 for credit.kind {credit.kind!r} (it compares the "
        f"rollouts of a problem), got {num_samples}",
    )
    _check_values(config)
    if not isinstance(credit, GaeCredit):
        return
    require(
        (credit.policy_lambda is None) != (credit.length_adaptive_alpha is None),
        "exactly one of credit.policy_lambda and credit.length_adaptive_alpha must be null, got "
        + ("two nulls" if credit.policy_lambda is None else "two values"),
    )
    require(
        credit.level == "token" or credit.segment_max_prob is None,
        "credit.segment_max_prob must be null for credit.level 'step' (tokens make segments), "
        f"got {credit.segment_max_prob}",
    )
    require(
        credit.segment_max_prob is None or credit.policy_lambda != 1.0,
        "credit.policy_lambda must be below 1 with credit.segment_max_prob (λ is 1 elsewhere "
        "already), got 1.0",
    )


def _check_values(config: TrainConfig) -> None:
    credit, further = config.credit, config.values.predictors
    held = [MONTE_CARLO] * (credit.monte_carlo is not None) + [CRITIC] * (config.critic is not None)
    for name in further:
        require(
            name not in (MONTE_CARLO, CRITIC, "policy"),
            f"values.predictors must not be named {MONTE_CARLO}, {CRITIC} or policy, got {name}",
        )
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
    if credit.kind == "gae":
        require(
            config.critic is not None or feeding is not None,
            "critic must be a value model for credit.kind 'gae', got null (or values.credit must "
            "name another predictor)",
        )
        require(
            feeding in (None, CRITIC) or credit.level == "step",
            f"credit.level must be 'step' with values.credit {feeding} (it values steps), got "
            "'token'",
        )
    require(
        config.critic is None or config.critic.own_model is not None or feeding in (None, CRITIC),
        "critic.kind must be 'separate' where values.credit names another predictor (a shared one "
        "would change the policy that it only measures), got 'shared'",
    )
