"""pass@1 and pass@k of the engine's policy, and of a run's checkpoints (`vineppo evaluate`).

A task file (`--task`) is jsonnet with the keys of `task`: the problems. Prompts and grading stay
the run's, which the policy has learned. The file may replace `prompt`, `too_long`,
`response_template` and `grading`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from vineppo.checkpoint import checkpoint_iterations
from vineppo.config.load import load_reward
from vineppo.config.schema import EvaluationConfig, SftConfig, TrainConfig
from vineppo.distributed import gather, init_distributed, num_ranks, num_replicas, replica
from vineppo.encoding import encode_problems
from vineppo.errors import UserError
from vineppo.metrics import evaluation_summary, merged_grading
from vineppo.models import load_model, named_weights
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler, submit_rollouts
from vineppo.run_dir import RunDir
from vineppo.run_dir.config import read_config
from vineppo.run_dir.directory import folder_name
from vineppo.run_dir.files import strict_json, write_atomic
from vineppo.tasks import load_split
from vineppo.tasks.environments import build_environment
from vineppo.tasks.grading import Grader
from vineppo.types import Problem


def evaluate_policy(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    evaluation: EvaluationConfig,
    iteration: int,
    progress: Progress,
) -> dict[str, Any]:
    """The content of `evaluations/iter_….json`; rewards above 0.5 are correct.

    The verifier alone gives the rewards. The token budget is the training's.
    """
    temperature, top_p = evaluation.temperature, evaluation.top_p
    sampling = replace(sampler.sampling, temperature=temperature, top_p=top_p)
    sampler = replace(sampler, sampling=sampling, scorer=None)
    sampler.grader.metrics()  # drops the counts of training
    each = sampler.engine.ranks_a_replica
    mine_P = prompts_P[replica(each) :: num_replicas(each)]
    pending = submit_rollouts(sampler, mine_P, evaluation.num_samples, (iteration, "evaluate"))
    sampler.finish(lambda: progress.tick(sampler.engine))
    mine = [
        (r.problem.id, r.reward > 0.5, r.finish_reason == "length", len(r.response_ids))
        for r in pending.settle().values()
    ]
    outcomes = [outcome for share in gather(mine)[::each] for outcome in share]
    _, _, is_truncated, lengths = zip(*outcomes, strict=True)
    num_correct = Counter({prompt.problem.id: 0 for prompt in prompts_P})
    num_correct.update(problem_id for problem_id, is_correct, _, _ in outcomes if is_correct)
    num_correct_P = list(num_correct.values())
    return {
        **evaluation_summary(num_correct_P, evaluation.num_samples),
        "num_problems": len(prompts_P),
        "samples_per_problem": evaluation.num_samples,
        "temperature": temperature,
        "top_p": top_p,
        "truncated_frac": fmean(is_truncated),
        **merged_grading(gather(sampler.grader.metrics())[::each]),
        "response_length_mean": fmean(lengths),
        "problem_ids": list(num_correct),
        "problems_digest": _digest_of([prompt.problem for prompt in prompts_P]),
        "num_correct_P": num_correct_P,
    }


def _digest_of(problems_P: Sequence[Problem]) -> str:
    """64 bits of questions and answers, which tell sets of problems with the same ids apart."""
    content = json.dumps([(problem.question, problem.answer) for problem in problems_P])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def headline(evaluation: dict[str, Any]) -> dict[str, float]:
    """An evaluation's pass@1 and pass@k for all samples."""
    return {
        name: evaluation[name] for name in ("pass@1", f"pass@{evaluation['samples_per_problem']}")
    }


@dataclass(frozen=True)
class Conditions:
    """A config to evaluate under, and the folder of `evaluations/` for the results.

    `other_task` is the resolved task where it differs from the run's; the results then hold it.
    """

    config: TrainConfig | SftConfig
    folder: str
    other_task: dict[str, Any] | None


def evaluate_run(
    directory: Path, checkpoints: str, task_paths: Sequence[str], assignments: Sequence[str]
) -> None:
    """Evaluates and prints a line for every checkpoint and task file.

    Results go to `RUN_DIR/evaluations/iter_….json`. With `--task` or `--set` they go to a subfolder
    named after them ("task=svamp").
    """
    refuse_several_processes("vineppo evaluate")
    conditions = read_conditions(directory, task_paths, assignments)
    policies = choose_policies(RunDir(directory), checkpoints)
    problems = [load_split(condition.config.task, "test") for condition in conditions]
    model = conditions[0].config.model
    loaded = load_model(str(policies[0][1]), model.dtype, model.attention)
    prompts = [
        encode_problems(condition.config, loaded, problems_P)
        for condition, problems_P in zip(conditions, problems, strict=True)
    ]
    with ExitStack() as stack:
        init_distributed()
        engine = conditions[0].config.engine.alone().build(loaded.engine_model)
        samplers = []
        for config in (condition.config for condition in conditions):
            grader = stack.enter_context(Grader(config.task.grading))
            environment = build_environment(config.task, loaded.tokenizer, loaded.engine_model)
            samplers.append(
                Sampler(
                    engine, grader, loaded.tokenizer, config.sampling, config.seed,
                    environment=environment,
                )
            )  # fmt: skip
        progress = stack.enter_context(Progress(len(policies) * len(conditions), 0, 0.0))
        done = 0
        for iteration, path in policies:
            weights = load_model(str(path), model.dtype, model.attention).model
            engine.load_weights(named_weights(weights))
            for condition, sampler, test_P in zip(conditions, samplers, prompts, strict=True):
                progress.enter("evaluate")
                evaluation = condition.config.evaluation
                result = evaluate_policy(sampler, test_P, evaluation, iteration, progress)
                scores = "  ".join(f"{name} {x:.3f}" for name, x in headline(result).items())
                if condition.other_task is not None:
                    result["task"] = condition.other_task
                file = directory / "evaluations" / condition.folder / f"iter_{iteration:06d}.json"
                write_atomic(file, strict_json(result, indent=2))
                done += 1
                progress.advance(done)
                progress.say(f"{path}: {scores}  ({file})")


def refuse_several_processes(command: str) -> None:
    """Raises `UserError` where a launcher started several."""
    if num_ranks() > 1:
        raise UserError(
            f"{command} runs in one process, got {num_ranks()}: start it without a launcher"
        )


def read_conditions(
    directory: Path, task_paths: Sequence[str], assignments: Sequence[str]
) -> list[Conditions]:
    """The conditions of every task file, or of the run's task. Raises `UserError`."""
    task_of_run = asdict(read_config(directory).task)
    conditions: dict[str, Conditions] = {}
    paths: Sequence[str | None] = task_paths or [None]
    for path in paths:
        config = read_config(directory, assignments, path)
        load_reward(config.task)
        made = assignments if path is None else [f"task={Path(path).stem}", *assignments]
        folder, task = folder_name(made), asdict(config.task)
        if folder in conditions:
            raise UserError(f"--task: the files must differ in their names, got {path} besides")
        conditions[folder] = Conditions(config, folder, None if task == task_of_run else task)
    return list(conditions.values())


def choose_policies(run: RunDir, checkpoints: str) -> list[tuple[int, Path]]:
    """(iteration, the policy's directory) for "all", "last" or "N,N…"."""
    paths = {i: run.checkpoint_path(i) / "policy" for i in checkpoint_iterations(run)}
    if run.final_path.is_dir():
        paths[run.last_logged_iteration()] = run.final_path / "policy"
    if not paths:
        raise UserError(f"{run.path} holds no checkpoint")
    if checkpoints == "all":
        return sorted(paths.items())
    if checkpoints == "last":
        return [max(paths.items())]
    try:
        wanted = [int(text) for text in checkpoints.split(",")]
    except ValueError:
        raise UserError(
            f"--checkpoints must be all, last or numbers with commas, got {checkpoints!r}"
        ) from None
    for iteration in wanted:
        if iteration not in paths:
            held = ", ".join(map(str, sorted(paths)))
            raise UserError(
                f"{run.path} holds no checkpoint of iteration {iteration} (only {held})"
            )
    return [(iteration, paths[iteration]) for iteration in wanted]
