"""Value predictors and critics: combinations of keys that each are fine and together are not."""

from vineppo.config.require import require, require_order
from vineppo.config.schema import (
    Cuts,
    EnsembleCritic,
    ExpectedCuts,
    FusedValues,
    GenerativeValues,
    PredictorConfig,
    ProbeValues,
    ReturnsReader,
    SeparateCritic,
    TrainConfig,
    ViewConfig,
    YesNoCritic,
)
from vineppo.types import CRITIC, MONTE_CARLO


def check_values(config: TrainConfig) -> None:
    """Each predictor by itself, then what feeds the estimator."""
    for name, own in config.values.predictors.items():
        require(
            name not in (MONTE_CARLO, CRITIC, "policy", "trainer", "state.json"),
            f"values.predictors must not be named {MONTE_CARLO}, {CRITIC}, policy, trainer or "
            f"state.json, got {name}",
        )
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
        _check_probe(name, own, config)
        _check_fused(name, own, config)
    for key, model in config.value_models.items():
        _check_learns_from(key, model, config)
    _check_feeding(config)
    _check_expected(config)


def _check_feeding(config: TrainConfig) -> None:
    """`values.credit`: a predictor that is there, and one that the estimator can take."""
    credit, further = config.credit, config.values.predictors
    held = [MONTE_CARLO] * (credit.monte_carlo is not None) + [CRITIC] * (config.critic is not None)
    feeding = config.values.credit
    require(
        feeding is None or feeding in (*held, *further),
        "values.credit must be null or one of the run's predictors, "
        f"{', '.join((*held, *further)) or 'of which there are none'}, got {feeding}",
    )
    require(
        feeding is None or credit.fed_by is not None,
        f"values.credit must be null for credit.kind {credit.kind!r}, which takes no values, got "
        f"{feeding}",
    )
    name = feeding or credit.fed_by
    if credit.reads_differences and name != MONTE_CARLO:
        taken = further.get(name or "")
        or_null = "null or " if credit.fed_by == MONTE_CARLO else ""
        require(
            taken is not None and taken.is_martingale,
            f"values.credit must be {or_null}a martingale, such as one of kind 'posterior', for "
            f"credit.kind {credit.kind!r}, got {feeding or 'null'}",
        )
    require(
        name != CRITIC or config.critic is not None,
        f"critic must be a value model for credit.kind {credit.kind!r} where values.credit is "
        "null, got null",
    )
    require(
        config.critic is None or config.critic.own_model is not None or feeding in (None, CRITIC),
        "critic.kind must be 'separate' where values.credit names another predictor (a shared one "
        "would change the policy that it only measures), got 'shared'",
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


def _sampling(config: TrainConfig) -> list[str]:
    """The run's predictors that sample continuations."""
    further = [name for name, own in config.values.predictors.items() if own.monte_carlo]
    return [MONTE_CARLO] * (config.credit.monte_carlo is not None) + further


def _check_learns_from(key: str, own: SeparateCritic, config: TrainConfig) -> None:
    """A value model that learns the returns of continuations, which are not discounted."""
    if own.learns_from is None:
        return
    sampled, credit = _sampling(config), config.credit
    require(
        own.kind != "yes_no",
        f"{key}.learns_from must be null for kind 'yes_no' (it learns rewards), got "
        f"{own.learns_from}",
    )
    require(
        own.learns_from in sampled,
        f"{key}.learns_from must be null or a predictor of the run that samples continuations, "
        f"{', '.join(sampled) or 'of which there are none'}, got {own.learns_from}",
    )
    its = config.values.predictors.get(own.learns_from, credit).monte_carlo
    assert its is not None, "sampled"
    require(
        not isinstance(its.states, Cuts),
        f"{key}.learns_from must be a predictor whose states are null, 'coin' or 'expected' "
        f"(others are chosen by what comes after them), got {own.learns_from}",
    )
    require(
        config.reference.kl_in == "loss",
        f"{key}.learns_from must be null where reference.kl_in is 'reward' (continuations hold no "
        f"KL), got {own.learns_from}",
    )


def _check_returns_reader(name: str, own: PredictorConfig, config: TrainConfig) -> None:
    """One that reads the returns of another predictor's continuations."""
    if not isinstance(own, ReturnsReader) or own.returns_of is None:
        return
    key = f"values.predictors.{name}"
    sampled = _sampling(config)
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
    if not own.is_probability:
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


def _check_probe(name: str, own: PredictorConfig, config: TrainConfig) -> None:
    if not (isinstance(own, ProbeValues) and own.crossed):
        return
    key = f"values.predictors.{name}"
    require(
        own.of is None,
        f"{key}.of must be null with {key}.crossed (it looks at rewards alone), got {own.of!r}",
    )
    require(
        config.rollouts.num_samples >= 2,
        f"rollouts.num_samples must be at least 2 with {key}.crossed (it looks at a problem's "
        f"other rollouts), got {config.rollouts.num_samples}",
    )


def _check_fused(name: str, own: PredictorConfig, config: TrainConfig) -> None:
    if not isinstance(own, FusedValues):
        return
    others = {CRITIC: config.critic, **config.values.predictors}
    prior = others.get(own.prior)
    # What the engine samples comes without a pass, in training alone.
    is_read = prior is not None and not prior.is_sampled and prior.values_of is None
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
        feeding = config.values.credit or config.credit.fed_by
        is_fed = key.removeprefix("values.predictors.") == feeding
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
    kind = config.credit.kind
    if config.credit.fed_by != CRITIC:
        require(
            critic.warmup_iterations in (0, config.num_iterations),
            f"critic.warmup_iterations must be 0 or num_iterations for credit.kind {kind!r} (a "
            f"critic beside it is only measured), got {critic.warmup_iterations}",
        )
        require(
            critic.own_model is not None,
            f"critic.kind must be 'separate' for credit.kind {kind!r} (a shared one would change "
            "the policy that it only measures), got 'shared'",
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
        not config.credit.shares_tokens,
        f"credit.kind must not be {config.credit.kind!r} for {key}.template {view.template!r} (the "
        "other rollouts share this one's actions)",
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
