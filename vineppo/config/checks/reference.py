"""The KL to the reference policy: where it enters, and how it is estimated."""

from vineppo.config.checks.require import num_sequences, require
from vineppo.config.schema import AdaptiveKl, TrainConfig


def check_reference(config: TrainConfig) -> None:
    reference = config.reference
    is_in_loss = reference.kl_in == "loss"
    require(
        is_in_loss or config.credit.monte_carlo is None,
        f"reference.kl_in must be 'loss' for credit.kind {config.credit.kind!r} (the "
        "continuations' returns hold no KL), got 'reward'",
    )
    require(
        not is_in_loss or reference.kl_estimator != "k1" or reference.kl_gradient == "k2",
        "reference.kl_gradient must be 'k2' for reference.kl_estimator 'k1' in the loss (its own "
        f"gradient has expectation 0), got {reference.kl_gradient!r}",
    )
    require(
        is_in_loss or reference.kl_gradient == "own",
        "reference.kl_gradient must be 'own' when reference.kl_in is 'reward' (a reward has no "
        f"gradient), got {reference.kl_gradient!r}",
    )
    bounds = reference.kl_clamp
    require(
        bounds is None or bounds[0] < bounds[1],
        f"reference.kl_clamp must be null or [low, high] with low < high, got {bounds}",
    )
    require(
        reference.kl_coef > 0 or not isinstance(reference.kl_control, AdaptiveKl),
        "reference.kl_coef must be above 0 when reference.kl_control.kind is 'adaptive' (it is "
        "multiplied), got 0",
    )
    require(
        reference.kl_estimator != "k1" or bounds is None or bounds[0] < 0,
        "reference.kl_clamp must be null or begin below 0 for reference.kl_estimator 'k1' (which "
        f"may be negative), got {bounds}",
    )
    if isinstance(reference.kl_control, AdaptiveKl):
        sequences, horizon = num_sequences(config), reference.kl_control.horizon
        require(
            horizon >= sequences,
            "reference.kl_control.horizon must be at least rollouts.num_prompts * "
            f"rollouts.num_samples = {sequences}, got {horizon}",
        )
