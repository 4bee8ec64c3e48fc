"""VinePPO (arXiv:2410.01679, algorithm 1) and its baselines: sample, credit, update, repeat."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from vineppo.checkpoint import Models
from vineppo.config.require import require
from vineppo.config.schema import AdaptiveKl, TrainConfig
from vineppo.distributed import gather, is_main, ranks_of_replica
from vineppo.encoding import encode_problems, encode_train_problems
from vineppo.experience import (
    Experience,
    add_advantages,
    add_logprobs,
    add_values,
    check_logprob_gap,
    sample,
    sample_varied,
    value_quality,
)
from vineppo.forward_passes import EntropyPass, ReferencePass
from vineppo.interruption import interruption, raise_if_any
from vineppo.kl import adapted_coef
from vineppo.lora import add_adapters
from vineppo.metrics import (
    advantage_metrics,
    importance_metrics,
    kl_metrics,
    logprob_gap_metrics,
    reward_metrics,
    rollout_metrics,
    value_metrics,
)
from vineppo.models import LoadedModel, check_tokenizers, load_model
from vineppo.policy import Policy
from vineppo.rollouts import Prompt
from vineppo.run_dir.tables import rollout_rows, value_rows
from vineppo.schedules import problems_of_iteration, with_redraws
from vineppo.session import Session, is_finished, open_run_dir, open_session
from vineppo.tasks import load_task
from vineppo.token_scores import Reference
from vineppo.types import MONTE_CARLO, Rollout
from vineppo.update import update, warmup_iterations
from vineppo.values import ValuePredictor, build_predictors


def train(config: TrainConfig, directory: Path) -> None:
    """Runs `config` to its end in `directory`, from the last checkpoint where there is one."""
    if is_finished(config, directory):
        return
    with open_training(config, directory) as (session, train_P, reference):
        run_iterations(config, session, train_P, reference)


@contextmanager
def open_training(
    config: TrainConfig, directory: Path
) -> Iterator[tuple[Session, list[Prompt], Reference | None]]:
    """A run about to go on, with its problems and its reference policy, if it has one."""
    task = load_task(config.task)
    check_num_prompts(config, len(task.train_P))
    check_tokenizers(config)
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    if config.model.lora is not None:
        add_adapters(loaded.model, config.model.lora, config.seed)
    reference = None
    if config.reference.kl_estimator is not None:
        reference = Reference(config.reference, config.model, loaded)
    scorer = config.reward_model.start(config, loaded) if config.reward_model else None
    train_P = encode_train_problems(config, loaded, task.train_P)
    check_num_prompts(config, len(train_P))  # those too long for the model may be left out
    start_models = load_models(config, loaded, train_P)
    test_P = encode_problems(config, loaded, task.test_P)
    run = open_run_dir(config, directory)
    kl_coef = config.reference.kl_coef
    with open_session(
        config, config.num_iterations, run, test_P, loaded, start_models, kl_coef, scorer
    ) as session:
        if reference is not None:
            reference.to(session.policy.device)
        if scorer is not None:
            scorer.to(session.policy.device)
        yield session, train_P, reference


def check_num_prompts(config: TrainConfig, num_problems: int) -> None:
    require(
        config.rollouts.num_prompts <= num_problems,
        f"rollouts.num_prompts must be at most the number of train problems, {num_problems}, got "
        f"{config.rollouts.num_prompts}",
    )


def load_models(
    config: TrainConfig, loaded: LoadedModel, train_P: Sequence[Prompt] = ()
) -> Callable[[], Models]:
    """Loads the predictors beside the policy; what is returned puts all under DeepSpeed.

    Raises `UserError` where one cannot value the problems.
    """
    predictors = build_predictors(config, loaded)
    for predictor in predictors:
        predictor.check_problems(train_P)
    heads = [predictor.head for predictor in predictors if predictor.head is not None]
    assert len(heads) <= 1, "a policy has one value head"

    def start() -> Models:
        policy = Policy(loaded, config.optimization, config.model.gradient_checkpointing, *heads)
        for predictor in predictors:
            predictor.start(policy)
        return Models(policy, predictors)

    return start


def run_iterations(
    config: TrainConfig, session: Session, train_P: list[Prompt], reference: Reference | None
) -> None:
    """The algorithm."""
    policy, predictors = session.models.policy, session.models.predictors
    progress = session.progress
    reference_pass = build_reference_pass(config, reference, policy.device)
    entropy_pass = build_entropy_pass(config, policy, session.sampler.engine.ranks_a_replica)
    for iteration in session.iterations():
        num_prompts, kl_coef = config.rollouts.num_prompts, session.state.kl_coef
        chosen = problems_of_iteration(len(train_P), num_prompts, iteration, config.seed)

        # Sample: rollouts, and in the same stream the continuations of their states.
        def draw(problems: Sequence[int], iteration: int = iteration) -> Experience:
            return sample(
                session.sampler, [train_P[i] for i in problems], config, predictors,
                iteration, progress, reference_pass, entropy_pass,
            )  # fmt: skip

        max_redraws = config.optimization.max_redraws
        if max_redraws:
            chosen = with_redraws(chosen, len(train_P), iteration, config.seed)
        experience = sample_varied(draw, chosen, num_prompts, max_redraws)
        raise_if_any(gather(interruption()))  # what follows changes the models
        rollouts = experience.rollouts
        progress.enter("sync")
        session.sleep_engine()

        # Values: of the continuations' returns, of critics, of whatever else the run measures.
        progress.enter("logprobs")
        add_logprobs(rollouts, policy, reference, predictors, config)
        check_logprob_gap(rollouts, config)
        add_values(rollouts, predictors)

        # Advantages.
        add_advantages(rollouts, predictors, config, kl_coef)

        # Update.
        progress.enter("update")
        updates = update(rollouts, policy, predictors, reference, config, iteration, kl_coef)
        is_warm_up = iteration <= warmup_iterations(config)
        has_moved = not is_warm_up or any(one.trains_policy for one in predictors)
        session.wake_engine(with_new_weights=has_moved)

        progress.enter("checkpoint")
        metrics = experience_metrics(experience, predictors, config, kl_coef)
        metrics |= session.sampling_metrics() | updates
        save_experience(session, rollouts, iteration)
        evaluation = session.evaluate_if_due(iteration)
        next_coef = next_kl_coef(
            config, kl_coef, metrics.get("kl/ref_per_sequence", 0.0), len(rollouts), iteration
        )
        session.finish_iteration(iteration, metrics | evaluation, next_coef)


def build_reference_pass(
    config: TrainConfig, reference: Reference | None, device: torch.device
) -> ReferencePass | None:
    """None without a reference, or where the policy's pass asks it anyway, for the exact KL."""
    if reference is None or config.reference.kl_estimator == "full":
        return None
    size = config.optimization.logprobs_micro_batch_size
    return ReferencePass(reference, config.sampling.temperature, size, device)


def build_entropy_pass(
    config: TrainConfig, policy: Policy, ranks_a_replica: int
) -> EntropyPass | None:
    """None where steps and cuts do without; all ranks must ask at once."""
    if not config.reads_entropies:
        return None
    size, temperature = config.optimization.logprobs_micro_batch_size, config.sampling.temperature
    ranks = ranks_of_replica(ranks_a_replica)
    return EntropyPass(policy.scores, temperature, size, policy.device, ranks)


def next_kl_coef(
    config: TrainConfig, kl_coef: float, kl_per_sequence: float, num_sequences: int, iteration: int
) -> float:
    """The KL coefficient after an iteration; the policy's warm-up leaves it as it is."""
    control = config.reference.kl_control
    if not isinstance(control, AdaptiveKl) or iteration <= warmup_iterations(config):
        return kl_coef
    return adapted_coef(kl_coef, kl_per_sequence, control.target, control.horizon, num_sequences)


def experience_metrics(
    experience: Experience,
    predictors: Sequence[ValuePredictor],
    config: TrainConfig,
    kl_coef: float,
) -> dict[str, float]:
    rollouts = experience.rollouts
    metrics = {
        **reward_metrics(experience.drawn),
        **rollout_metrics(rollouts),
        **advantage_metrics([rollout.steps_S["advantages"] for rollout in rollouts]),
        **logprob_gap_metrics(rollouts),
        **value_quality(rollouts, predictors, config),
        "tokens/rollout": sum(sum(config.credit.sampled_tokens(one)) for one in experience.drawn)
        + experience.greedy_tokens,
    }
    if config.reference.kl_estimator is not None:
        kl_T_by_rollout = [rollout.of_actions(rollout.tokens_T["kl"]) for rollout in rollouts]
        metrics |= kl_metrics(kl_T_by_rollout, kl_coef)
    if config.optimization.max_redraws:
        num_drawn = len(experience.drawn) // config.rollouts.num_samples
        metrics["rollout/drawn_problems"] = num_drawn
    importance = config.optimization.importance_correction
    if importance is not None:
        metrics |= importance_metrics(rollouts, importance.level)
    if MONTE_CARLO in rollouts[0].returns_S:
        values = [v for rollout in rollouts for v in rollout.returns_S[MONTE_CARLO] if v.returns_K]
        if values:
            metrics |= value_metrics(values, experience.continuations[MONTE_CARLO])
    metrics["tokens/values"] = experience.value_tokens
    return metrics


def save_experience(session: Session, rollouts: Sequence[Rollout], iteration: int) -> None:
    """Writes the tables of an iteration."""
    if not is_main():
        return
    run = session.run
    run.write_rollouts(iteration, rollout_rows(rollouts))
    names = [predictor.name for predictor in session.models.predictors]
    if names:
        run.write_values(iteration, value_rows(rollouts, names))
