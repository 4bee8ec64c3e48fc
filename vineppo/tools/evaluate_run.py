"""`vineppo evaluate`: pass@1 and pass@k of a run's checkpoints.

A task file (`--task`) is jsonnet with the keys of `task`: the problems. Prompts and grading stay
the run's, which the policy has learned. The file may replace `prompt`, `too_long`,
`response_template` and `grading`.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vineppo.checkpoint import checkpoint_iterations
from vineppo.config.load import load_reward
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.distributed import init_distributed, refuse_several_processes
from vineppo.encoding import encode_problems
from vineppo.errors import UserError
from vineppo.evaluate import evaluate_policy, headline
from vineppo.models import load_model, named_weights
from vineppo.progress import Progress
from vineppo.rollouts import Sampler
from vineppo.run_dir import RunDir, strict_json, write_atomic
from vineppo.run_dir.config import read_config
from vineppo.tasks import load_split
from vineppo.tasks.environments import build_environment
from vineppo.tasks.grading import Grader
from vineppo.tools.sweep import folder_name


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
            grader = stack.enter_context(
                Grader(config.task.grading, opening=config.task.prompt.response_prefix)
            )
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
