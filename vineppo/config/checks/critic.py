"""The value model: its updates, its loss, and the estimators that it stands beside."""

from vineppo.config.checks.require import require, require_minibatches
from vineppo.config.schema import CrossEntropy, GaeCredit, TrainConfig


def check_critic(config: TrainConfig) -> None:
    critic = config.critic
    if critic is None:
        return
    require(
        critic.warmup_iterations <= config.num_iterations,
        f"critic.warmup_iterations must be at most num_iterations = {config.num_iterations}, got "
        f"{critic.warmup_iterations}",
    )
    require(
        isinstance(config.credit, GaeCredit)
        or critic.warmup_iterations in (0, config.num_iterations),
        "critic.warmup_iterations must be 0 or num_iterations for a credit.kind other than 'gae' "
        f"(a critic beside it is only measured), got {critic.warmup_iterations}",
    )
    if critic.own_model is None:
        require(
            isinstance(config.credit, GaeCredit),
            "critic.kind must be 'separate' for a credit.kind other than 'gae' (a shared one would "
            "change the policy that it only measures), got 'shared'",
        )
    else:
        require_minibatches("critic", critic.own_model, config)
    if isinstance(critic.loss, CrossEntropy):
        _check_bounds(critic.loss, config)


def _check_bounds(loss: CrossEntropy, config: TrainConfig) -> None:
    """A distribution over values must have room for every return."""
    require(
        config.task.grading.reward_path is None,
        "critic.loss.kind must be 'squared_error' with task.grading.reward_path (rewards of "
        "one's own have no known bounds), got 'cross_entropy'",
    )
    require(
        loss.low < loss.high,
        f"critic.loss.low must be below critic.loss.high = {loss.high}, got {loss.low}",
    )
    truncated = config.task.grading.truncated_reward or 0.0
    require(
        loss.low <= min(0.0, truncated) and loss.high >= max(1.0, truncated),
        "critic.loss.low and .high must enclose every reward (0, 1 and "
        f"task.grading.truncated_reward), got {loss.low} and {loss.high}",
    )
    require(
        config.reference.kl_in == "loss",
        "critic.loss.kind must be 'squared_error' when reference.kl_in is 'reward' (the KL has "
        "no bound), got 'cross_entropy'",
    )
