"""RestEM: a policy fine-tuned on its own right answers, again and again (arXiv:2312.06585).

Expectation–maximisation of the probability of a right answer. E: sample responses with the current
policy and keep the right ones. M: maximise their likelihood from the starting policy,

    max_θ Σ_{y right} log π_θ(y | x)

until validation problems, which are no test problems, say that it is enough. No values, no
advantages: what any credit has to be worth.
"""

from collections.abc import Sequence
from itertools import groupby
from math import ceil
from pathlib import Path

from vineppo.batching import shuffled_minibatches
from vineppo.checkpoint import Models, remove_whole, write_whole
from vineppo.config.schema import SelfTraining, SftConfig
from vineppo.distributed import from_main, gather, is_main, num_replicas, replica
from vineppo.encoding import encode_problems, encode_train_problems
from vineppo.errors import UserError
from vineppo.evaluate import evaluate_policy
from vineppo.metrics import reward_metrics
from vineppo.policy import Policy
from vineppo.rollouts import Prompt, submit_rollouts
from vineppo.schedules import problems_of_iteration
from vineppo.seeds import derive_seed
from vineppo.session import Session, is_finished, open_session
from vineppo.sft import open_run, update_on
from vineppo.tasks import load_task
from vineppo.types import Rollout, TokenSequence

START, BEST = "start", "best"  # states of the models, in the run's directory


def restem(config: SftConfig, directory: Path) -> None:
    """Runs `config` to its end in `directory`; an iteration is one E and one M."""
    own = config.self_training
    assert own is not None, "asked before"
    if is_finished(config, directory):
        return
    task = load_task(config.task)
    run, loaded = open_run(config, directory)
    prompts_P = encode_train_problems(config, loaded, task.train_P)
    validation_P, train_P = prompts_P[: own.num_validation], prompts_P[own.num_validation :]
    if len(train_P) < own.num_prompts:
        raise UserError(
            "config: self_training.num_prompts and num_validation must together be at most the "
            f"{len(prompts_P)} train problems, got {own.num_prompts} + {own.num_validation}"
        )
    test_P = encode_problems(config, loaded, task.test_P)

    def start_models() -> Models:
        return Models(Policy(loaded, config.optimization, config.model.gradient_checkpointing))

    with open_session(config, own.num_iterations, run, test_P, loaded, start_models) as session:
        if not from_main((run.path / START).exists):
            session.sleep_engine()
            write_whole(run.path / START, session.models.save_state)
            session.wake_engine(with_new_weights=False)
        for iteration in session.iterations():
            chosen = problems_of_iteration(len(train_P), own.num_prompts, iteration, config.seed)
            rollouts = sample(session, own, [train_P[i] for i in chosen], iteration)
            right = right_answers(rollouts, own.most_right)
            metrics = {
                **reward_metrics(rollouts),
                "tokens/rollout": sum(len(rollout.response_ids) for rollout in rollouts),
                "restem/right": len(right),
            }
            if right:
                metrics |= maximise(session, config, own, validation_P, right, iteration)
            metrics |= session.sampling_metrics() | session.evaluate_if_due(iteration)
            session.finish_iteration(iteration, metrics)
        for name in (START, BEST):
            if is_main() and (run.path / name).exists():
                remove_whole(run.path / name)


def sample(
    session: Session, own: SelfTraining, prompts_P: Sequence[Prompt], iteration: int
) -> list[Rollout]:
    """`num_samples` responses of every prompt, on every rank; the replicas share the work."""
    session.progress.enter("rollout")
    sampler = session.sampler
    each = sampler.engine.ranks_a_replica
    mine_P = prompts_P[replica(each) :: num_replicas(each)]
    pending = submit_rollouts(sampler, mine_P, own.num_samples, (iteration, "rollout"))
    while sampler.engine.num_unfinished:
        sampler.engine.step()
        session.progress.tick(sampler.engine)
    by_key = {key: r for share in gather(pending.settle())[::each] for key, r in share.items()}
    indices = range(own.num_samples)
    return [by_key[prompt.problem.id, index] for prompt in prompts_P for index in indices]


def right_answers(rollouts: Sequence[Rollout], most: int) -> list[TokenSequence]:
    """Of each problem the first `most` responses that are right, each once.

    Right is a reward above 0.5, as in evaluations; a response that was cut off does not count.
    """
    chosen: list[TokenSequence] = []
    for _, group in groupby(rollouts, key=lambda rollout: rollout.problem.id):
        right = {
            rollout.response_ids: TokenSequence(rollout.prompt_ids, rollout.response_ids)
            for rollout in group
            if rollout.reward > 0.5 and rollout.finish_reason == "stop"
        }
        chosen += list(right.values())[:most]
    return chosen


def maximise(
    session: Session,
    config: SftConfig,
    own: SelfTraining,
    validation_P: Sequence[Prompt],
    right: Sequence[TokenSequence],
    iteration: int,
) -> dict[str, float]:
    """Trains on the right answers; the policy is then that of the epoch with most validation.

    pass@1 by the samples and the temperature of `evaluation`; of equal epochs the first. The engine
    is left with it.
    """
    optimization, best = config.optimization, session.run.path / BEST
    session.sleep_engine()
    if own.restart:
        session.models.load_state(session.run.path / START)
    updates_per_epoch = ceil(len(right) / optimization.batch_size)
    num_updates = optimization.num_epochs * updates_per_epoch
    metrics: dict[str, float] = {}
    scores: list[float] = []
    for epoch in range(optimization.num_epochs):
        seed = derive_seed(config.seed, iteration, "right answers", epoch)
        minibatches = shuffled_minibatches(len(right), optimization.batch_size, seed)
        for number, indices in enumerate(minibatches):
            chosen = [right[i] for i in indices]
            done = epoch * updates_per_epoch + number
            metrics = update_on(session, config, chosen, done, num_updates)
        session.wake_engine(with_new_weights=True)
        session.progress.enter("evaluate")
        stream = iteration * optimization.num_epochs + epoch
        found = evaluate_policy(
            session.sampler, validation_P, config.evaluation, stream, session.progress
        )
        scores.append(found["pass@1"])
        session.sleep_engine()
        if scores[-1] > max(scores[:-1], default=-1.0):
            if is_main() and best.exists():
                remove_whole(best)
            write_whole(best, session.models.save_state)
    session.models.load_state(best)
    session.wake_engine(with_new_weights=True)
    return metrics | {
        "restem/validation": max(scores),
        "restem/epoch": float(scores.index(max(scores)) + 1),
    }
