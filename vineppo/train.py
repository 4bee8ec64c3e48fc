"""VinePPO (arXiv:2410.01679, algorithm 1) and its baselines: sample, credit, update, repeat."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from vineppo.checkpoint import Models
from vineppo.config.schema import (
    AdaptiveKl,
    SeparateCritic,
    SharedCritic,
    TrainConfig,
)
from vineppo.critic import SeparateValueModel, SharedValueHead
from vineppo.critic.value_model import check_size, load_value_model, new_head
from vineppo.distributed import is_main
from vineppo.encoding import encode_problems, encode_train_problems
from vineppo.errors import UserError
from vineppo.experience import Experience, gather_experience
from vineppo.kl import adapted_coef
from vineppo.lora import add_adapters
from vineppo.metrics import (
    advantage_metrics,
    reward_metrics,
    rollout_metrics,
    value_metrics,
)
from vineppo.models import LoadedModel, check_tokenizers, load_model
from vineppo.policy import Policy
from vineppo.reference_pass import ReferencePass
from vineppo.rollouts import Prompt
from vineppo.run_dir.rows import rollout_rows, value_rows
from vineppo.schedules import problems_of_iteration
from vineppo.scoring import Scored, score
from vineppo.segment import build_segmenter
from vineppo.session import Session, is_finished, open_run_dir, open_session
from vineppo.tasks import load_task
from vineppo.token_scores import Reference
from vineppo.trainer import update_critic, update_policy, warm_up_head, warmup_iterations
from vineppo.value_diagnostics import diagnostic_rows, histograms


def train(config: TrainConfig, directory: Path) -> None:
    """Runs `config` to its end in `directory`, from the last checkpoint where there is one."""
    if is_finished(config, directory):
        return
    with open_training(config, directory) as (session, train_P, reference):
        run_iterations(config, session, train_P, reference)


@contextmanager
def open_training(
    config: TrainConfig, directory: Path
) -> Iterator[tuple[Session, list[Prompt], Reference]]:
    """A run about to go on, with its problems and its reference policy."""
    task = load_task(config.task)
    check_tokenizers(config)
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    if config.model.lora is not None:
        add_adapters(loaded.model, config.model.lora, config.seed)
    reference = Reference(config.reference, config.model, loaded)
    start_models = load_models(config, loaded)
    train_P = encode_train_problems(config, loaded, task.train_P)
    if config.rollouts.num_prompts > len(train_P):
        raise UserError(
            f"config: rollouts.num_prompts must be at most the number of train problems, "
            f"{len(train_P)}, got {config.rollouts.num_prompts}"
        )
    test_P = encode_problems(config, loaded, task.test_P)
    run = open_run_dir(config, directory)
    kl_coef = config.reference.kl_coef
    with open_session(
        config, config.num_iterations, run, test_P, loaded, start_models, kl_coef
    ) as session:
        reference.to(session.policy.device)
        yield session, train_P, reference


def load_models(config: TrainConfig, loaded: LoadedModel) -> Callable[[], Models]:
    """Loads the critic beside the policy; what is returned puts both under DeepSpeed."""
    start_policy = partial(Policy, loaded, config.optimization, config.model.gradient_checkpointing)
    critic = config.critic
    if isinstance(critic, SeparateCritic):
        value_model = load_value_model(critic, config.model, config.seed)
        check_size(value_model, loaded.engine_model.num_token_ids, config.engine.max_model_len)

        def start() -> Models:
            model = SeparateValueModel(
                critic, value_model, loaded.tokenizer, config.model.gradient_checkpointing
            )
            return Models(start_policy(), model)

        return start
    if isinstance(critic, SharedCritic):
        head = new_head(loaded.model.config.hidden_size, loaded.model.dtype, config.seed)

        def start_shared() -> Models:
            policy = start_policy(value_head=head)
            return Models(policy, SharedValueHead(critic, policy, head))

        return start_shared
    return lambda: Models(start_policy(), None)


def run_iterations(
    config: TrainConfig, session: Session, train_P: list[Prompt], reference: Reference
) -> None:
    """The algorithm."""
    segmenter = build_segmenter(config.credit.segmenter)
    reference_pass = build_reference_pass(config, reference, session.policy.device)
    for iteration in session.iterations():
        chosen = problems_of_iteration(
            len(train_P), config.rollouts.num_prompts, iteration, config.seed
        )
        prompts_P = [train_P[i] for i in chosen]
        experience = gather_experience(
            session.sampler, prompts_P, config, segmenter, iteration, session.progress,
            reference_pass,
        )  # fmt: skip
        session.progress.enter("sync")
        session.sleep_engine()
        session.progress.enter("logprobs")
        kl_coef = session.state.kl_coef
        policy, critic = session.models.policy, session.models.critic
        scored = score(experience, policy, critic, reference, config, kl_coef)
        session.progress.enter("update")
        updates = update_models(config, session.models, scored, reference, iteration, kl_coef)
        session.wake_engine(with_new_weights=iteration > warmup_iterations(config))
        session.progress.enter("checkpoint")
        metrics = {
            **experience_metrics(experience, scored),
            **session.sampling_metrics(),
            **scored.metrics,
            **updates,
        }
        save_experience(session, experience, scored, iteration)
        evaluation = session.evaluate_if_due(iteration)
        next_coef = next_kl_coef(config, kl_coef, scored, iteration)
        session.finish_iteration(iteration, {**metrics, **evaluation}, next_coef)


def build_reference_pass(
    config: TrainConfig, reference: Reference, device: torch.device
) -> ReferencePass | None:
    """None where the policy's pass asks the reference anyway, for the exact KL."""
    if config.reference.kl_estimator == "full":
        return None
    size = config.optimization.logprobs_micro_batch_size
    return ReferencePass(reference, config.sampling.temperature, size, device)


def update_models(
    config: TrainConfig,
    models: Models,
    scored: Scored,
    reference: Reference,
    iteration: int,
    kl_coef: float,
) -> dict[str, float]:
    """The critic's update and the policy's; in the critic's warm-up the critic's alone."""
    is_warmup = iteration <= warmup_iterations(config)
    metrics: dict[str, float] = {}
    if isinstance(models.critic, SeparateValueModel):
        metrics |= update_critic(models.critic, scored.sequences, config, iteration)
    elif is_warmup:
        metrics |= warm_up_head(models.policy, scored.sequences, config, iteration)
    if not is_warmup:
        metrics |= update_policy(
            models.policy, scored.sequences, reference, config, iteration, kl_coef
        )
    return metrics


def next_kl_coef(config: TrainConfig, kl_coef: float, scored: Scored, iteration: int) -> float:
    """The KL coefficient after an iteration; the policy's warm-up leaves it as it is."""
    control = config.reference.kl_control
    if not isinstance(control, AdaptiveKl) or iteration <= warmup_iterations(config):
        return kl_coef
    kl, count = scored.metrics["kl/ref_per_sequence"], len(scored.sequences)
    return adapted_coef(kl_coef, kl, control.target, control.horizon, count)


def experience_metrics(experience: Experience, scored: Scored) -> dict[str, float]:
    rollouts = experience.rollouts
    metrics = {
        **reward_metrics(rollouts),
        **rollout_metrics(rollouts, experience.spans_S),
        **advantage_metrics(scored.advantages_S),
        "tokens/rollout": sum(len(rollout.response_ids) for rollout in rollouts)
        + experience.greedy_tokens,
        "tokens/values": 0,
    }
    if experience.values_S is not None:
        values = [value for values_S in experience.values_S for value in values_S]
        metrics |= value_metrics(values, experience.num_continuations)
        metrics["tokens/values"] = sum(value.num_tokens for value in values)
    return metrics


def save_experience(
    session: Session, experience: Experience, scored: Scored, iteration: int
) -> None:
    """The tables of an iteration; with a critic its diagnostics, where an evaluation is due."""
    if not is_main():
        return
    run, rollouts, spans_S = session.run, experience.rollouts, experience.spans_S
    run.write_rollouts(iteration, rollout_rows(rollouts, spans_S, scored.advantages_S))
    if experience.values_S is not None or scored.values is not None:
        rows = value_rows(rollouts, spans_S, experience.values_S, scored.values)
        run.write_values(iteration, rows)
    if scored.values is not None and session.is_evaluation_due(iteration):
        rows = diagnostic_rows(rollouts, scored.values, scored.returns_T, scored.advantages_T)
        run.write_value_diagnostics(iteration, rows)
        arrays = histograms(rows, session.config.sampling.max_tokens)
        session.wandb.log_histograms(arrays, iteration)
