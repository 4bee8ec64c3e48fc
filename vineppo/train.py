"""VinePPO (arXiv:2410.01679, algorithm 1): sample, value every step, update, repeat."""

from pathlib import Path

from vineppo.config.load import to_dict
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.experience import Experience, gather_experience
from vineppo.metrics import (
    advantage_metrics,
    reward_metrics,
    rollout_metrics,
    value_metrics,
)
from vineppo.models import Reference, load_model
from vineppo.rollouts import Prompt
from vineppo.run_dir import RunDir
from vineppo.run_dir.rows import rollout_rows, value_rows
from vineppo.schedules import problems_of_iteration
from vineppo.segment import build_segmenter
from vineppo.session import Session, encode_problems, is_finished, open_session
from vineppo.tasks import load_task
from vineppo.trainer import score, update_policy


def train(config: TrainConfig, directory: Path) -> None:
    """Runs `config` to its end in `directory`, from the last checkpoint where there is one."""
    if is_finished(config, directory):
        return
    task = load_task(config.task)
    if config.rollouts.num_prompts > len(task.train_P):
        raise UserError(
            f"config: rollouts.num_prompts must be at most the number of train problems, "
            f"{len(task.train_P)}, got {config.rollouts.num_prompts}"
        )
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    reference = Reference(config.reference, config.model, loaded)
    train_P = encode_problems(config, loaded, task.train_P)
    test_P = encode_problems(config, loaded, task.test_P)
    run = RunDir.open(directory, to_dict(config))
    with open_session(config, config.num_iterations, run, test_P, loaded) as session:
        reference.to(session.policy.device)
        run_iterations(config, session, train_P, reference)


def run_iterations(
    config: TrainConfig, session: Session, train_P: list[Prompt], reference: Reference
) -> None:
    """The algorithm."""
    segmenter = build_segmenter(config.credit.segmenter)
    size = config.rollouts
    for iteration in session.iterations():
        chosen = problems_of_iteration(len(train_P), size.num_prompts, iteration, config.seed)
        experience = gather_experience(
            session.sampler,
            [train_P[i] for i in chosen],
            size.num_samples,
            config.credit,
            segmenter,
            iteration,
            session.progress,
        )
        session.sampler.engine.sleep()
        session.progress.enter("logprobs")
        sequences, advantages_S, scores = score(
            experience, session.policy, reference.logprobs, config
        )
        session.progress.enter("update")
        update = update_policy(
            session.policy,
            sequences,
            config.optimization,
            config.reference,
            config.sampling,
            config.seed,
            iteration,
            config.num_iterations,
        )
        session.sync_weights()
        metrics = {
            **experience_metrics(experience, advantages_S),
            **session.sampling_metrics(),
            **scores,
            **update,
        }
        session.progress.enter("checkpoint")
        save_experience(session, experience, advantages_S, iteration)
        evaluation = session.evaluate_if_due(iteration)
        session.finish_iteration(iteration, {**metrics, **evaluation})


def experience_metrics(experience: Experience, advantages_S: list[list[float]]) -> dict[str, float]:
    values = [value for values_S in experience.values_S for value in values_S]
    rollouts = experience.rollouts
    return {
        **reward_metrics(rollouts),
        **rollout_metrics(rollouts, experience.spans_S),
        **value_metrics(values, experience.num_continuations),
        **advantage_metrics(advantages_S),
        "tokens/rollout": sum(len(rollout.response_ids) for rollout in rollouts),
        "tokens/values": sum(value.num_tokens for value in values),
    }


def save_experience(
    session: Session, experience: Experience, advantages_S: list[list[float]], iteration: int
) -> None:
    rollouts, spans_S = experience.rollouts, experience.spans_S
    session.run.write_rollouts(iteration, rollout_rows(rollouts, spans_S, advantages_S))
    session.run.write_values(iteration, value_rows(rollouts, spans_S, experience.values_S, None))
