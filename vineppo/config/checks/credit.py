"""The estimator against what is sampled, and against its critic."""

from vineppo.config.checks.require import require
from vineppo.config.schema import GaeCredit, TrainConfig

GROUP_ESTIMATORS = ("grpo", "rloo", "reinforce_plus_plus_baseline")


def check_credit(config: TrainConfig) -> None:
    credit, num_samples = config.credit, config.rollouts.num_samples
    require(
        num_samples >= 2 or credit.kind not in GROUP_ESTIMATORS,
        f"rollouts.num_samples must be at least 2 for credit.kind {credit.kind!r} (it compares the "
        f"rollouts of a problem), got {num_samples}",
    )
    if not isinstance(credit, GaeCredit):
        return
    require(
        config.critic is not None,
        "critic must be a value model for credit.kind 'gae', got null",
    )
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
