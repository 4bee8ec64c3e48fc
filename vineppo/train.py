"""VinePPO (arXiv:2410.01679, algorithm 1) and its baselines: sample, credit, update, repeat."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from vineppo.batching import problems_of_iteration, with_redraws
from vineppo.checkpoint import Models
from vineppo.config.require import require
from vineppo.config.schema import AdaptiveKl, TrainConfig
from vineppo.distributed import (
    LONE,
    RankGroup,
    gather,
    interruption,
    is_main,
    raise_if_any,
    ranks_of_replica,
)
from vineppo.encoding import encode_problems
from vineppo.experience import (
    Experience,
    add_advantages,
    add_logprobs,
    add_values,
    check_logprob_gap,
    sample,
    sample_varied,
)
from vineppo.losses import adapted_coef
from vineppo.metrics import iteration_metrics, rollout_rows, value_rows
from vineppo.models import LoadedModel, check_tokenizers, load_model, with_adapters
from vineppo.policy import Policy, Reference
from vineppo.progress import say
from vineppo.rollouts import Prompt
from vineppo.session import Session, is_finished, open_run_dir, open_session
from vineppo.tasks import load_task, sizes
from vineppo.token_scores import RolloutPass, entropies
from vineppo.types import Rollout
from vineppo.update import update, warmup_iterations
from vineppo.values import build_predictors


def train(config: TrainConfig, directory: Path) -> None:
    """Runs `config` to its end in `directory`, from the last checkpoint if there is one."""
    if is_finished(config, directory):
        return
    with open_training(config, directory) as (session, train_P, reference):
        run_iterations(config, session, train_P, reference)


@contextmanager
def open_training(
    config: TrainConfig, directory: Path
) -> Iterator[tuple[Session, list[Prompt], Reference | None]]:
    """A run that is ready to train, its problems, and its reference policy if it has one."""
    task = load_task(config.task)
    say(f"{config.name}: {sizes(task)}")
    check_num_prompts(config, len(task.train_P))
    check_tokenizers(config)
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    loaded = with_adapters(loaded, config.model.lora, config.seed)
    reference = None
    if config.reference.kl_estimator is not None:
        reference = Reference(config.reference, config.model, loaded)
    scorer = config.reward_model.start(config, loaded) if config.reward_model else None
    train_P = encode_problems(config, loaded, task.train_P, config.task.too_long)
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
    """Loads the predictors beside the policy; the result, when called, puts all under DeepSpeed.

    Raises `UserError` if one cannot value the problems.
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
    sampler, progress = session.sampler, session.progress
    ranks = ranks_of_replica(sampler.engine.ranks_a_replica)
    reference_pass = build_reference_pass(config, reference, policy.device, ranks)
    entropy_pass = build_entropy_pass(config, policy, ranks)
    num_prompts, max_redraws = config.rollouts.num_prompts, config.optimization.max_redraws
    for iteration in session.iterations():
        kl_coef = session.state.kl_coef

        # Sample: rollouts, and in the same stream the continuations of their states.
        def draw(problems: Sequence[int], iteration: int = iteration) -> Experience:
            prompts_P = [train_P[i] for i in problems]
            return sample(
                sampler, prompts_P, config, predictors, iteration, progress, reference_pass,
                entropy_pass,
            )  # fmt: skip

        chosen = problems_of_iteration(len(train_P), num_prompts, iteration, config.seed)
        order = with_redraws(chosen, len(train_P), iteration, config.seed)
        experience = sample_varied(draw, order, num_prompts, max_redraws)
        raise_if_any(gather(interruption()))  # what follows changes the models
        rollouts = experience.rollouts
        progress.enter("sync")
        session.sampler.engine.sleep()

        # Values: means of the continuations' returns, critics, whatever else the run measures.
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
        metrics = iteration_metrics(experience, predictors, config, kl_coef)
        metrics |= session.sampling_metrics() | updates
        save_experience(session, rollouts, iteration)
        metrics |= session.evaluate_if_due(iteration)
        kl_coef = next_kl_coef(config, kl_coef, metrics, len(rollouts), iteration)
        session.finish_iteration(iteration, metrics, kl_coef)


def build_reference_pass(
    config: TrainConfig,
    reference: Reference | None,
    device: torch.device,
    ranks: RankGroup = LONE,
) -> RolloutPass | None:
    """None without a reference, or where the policy's pass asks it anyway, for the exact KL."""
    if reference is None or config.reference.kl_estimator == "full":
        return None
    forward = partial(reference.logprobs, temperature=config.sampling.temperature)
    size, packs = config.optimization.logprobs_micro_batch_size, reference.packs
    return RolloutPass("ref_logprobs", forward, size, device, ranks, packs, beside=True)


def build_entropy_pass(config: TrainConfig, policy: Policy, ranks: RankGroup) -> RolloutPass | None:
    """None where neither steps nor cuts read entropies."""
    if not config.reads_entropies:
        return None
    size = config.optimization.logprobs_micro_batch_size
    forward = entropies(policy.scores, config.sampling.temperature)
    return RolloutPass("entropies", forward, size, policy.device, ranks)


def next_kl_coef(
    config: TrainConfig,
    kl_coef: float,
    metrics: dict[str, float],
    num_sequences: int,
    iteration: int,
) -> float:
    """The KL coefficient after an iteration; a warm-up of the critic leaves it as it is."""
    control = config.reference.kl_control
    if not isinstance(control, AdaptiveKl) or iteration <= warmup_iterations(config):
        return kl_coef
    kl = metrics.get("kl/ref_per_sequence", 0.0)
    return adapted_coef(kl_coef, kl, control.target, control.horizon, num_sequences)


def save_experience(session: Session, rollouts: Sequence[Rollout], iteration: int) -> None:
    """Writes an iteration's tables."""
    if not is_main():
        return
    run = session.run
    run.write_rollouts(iteration, rollout_rows(rollouts))
    names = [predictor.name for predictor in session.models.predictors]
    if names:
        run.write_values(iteration, value_rows(rollouts, names))
