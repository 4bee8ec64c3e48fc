"""`vineppo evaluate`: pass@k of the checkpoints of a run, also on other problems.

A task file (`--task`) is jsonnet that gives a table with the keys of `task`: the problems. How they
are put to the policy and its answers are found is the run's own, since that is what the policy has
learned, but for what the file names of `prompt`, `too_long`, `response_template` and `grading`.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vineppo.checkpoint import checkpoint_iterations
from vineppo.config.load import own_task_functions
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.distributed import init_distributed
from vineppo.encoding import encode_problems
from vineppo.engine import Engine, build_engine, lone_engine
from vineppo.errors import UserError
from vineppo.evaluation import evaluate_policy, evaluation_sampler
from vineppo.models import LoadedModel, load_model, named_weights
from vineppo.progress import Progress
from vineppo.rollouts import Prompt, Sampler
from vineppo.run_dir import RunDir
from vineppo.run_dir.config import read_config
from vineppo.run_dir.directory import folder_name
from vineppo.run_dir.files import strict_json, write_atomic
from vineppo.session import refuse_several_processes
from vineppo.tasks import load_split
from vineppo.tasks.grading import Grader


@dataclass(frozen=True)
class Conditions:
    """Under what the policies are evaluated, and the folder of `evaluations/` for the results.

    `other_task` is the resolved task where it is not the run's; the results then say so.
    """

    config: TrainConfig | SftConfig
    folder: str
    other_task: dict[str, Any] | None


def evaluate_run(
    directory: Path, checkpoints: str, task_paths: Sequence[str], assignments: Sequence[str]
) -> None:
    """Evaluates and prints a line for every checkpoint and task file.

    Results go to `RUN_DIR/evaluations/iter_….json`, or, with `--task` or `--set`, to a subfolder
    named after them ("task=svamp"), so that the run's own evaluations stay as they were.
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
        engine = build_engine(lone_engine(conditions[0].config.engine), loaded.engine_model)
        samplers = list(_samplers(conditions, engine, loaded, stack))
        progress = stack.enter_context(Progress(len(policies) * len(conditions), 0, 0.0))
        done = 0
        for iteration, path in policies:
            weights = load_model(str(path), model.dtype, model.attention).model
            engine.load_weights(named_weights(weights))
            for condition, sampler, test_P in zip(conditions, samplers, prompts, strict=True):
                progress.enter("evaluate")
                file = directory / "evaluations" / condition.folder / f"iter_{iteration:06d}.json"
                scores = _evaluate(condition, sampler, test_P, iteration, file, progress)
                done += 1
                progress.advance(done)
                progress.say(f"{path}: {scores}  ({file})")


def read_conditions(
    directory: Path, task_paths: Sequence[str], assignments: Sequence[str]
) -> list[Conditions]:
    """One for every task file, or one for the run's own task.

    Raises `UserError` also for a user's own file that cannot be used.
    """
    own_task = asdict(read_config(directory).task)
    conditions: dict[str, Conditions] = {}
    paths: Sequence[str | None] = task_paths or [None]
    for path in paths:
        config = read_config(directory, assignments, path)
        for function in own_task_functions(config.task):
            function.load()
        made = assignments if path is None else [f"task={Path(path).stem}", *assignments]
        folder, task = folder_name(made), asdict(config.task)
        if folder in conditions:
            raise UserError(f"--task: the files must differ in their names, got {path} besides")
        conditions[folder] = Conditions(config, folder, None if task == own_task else task)
    return list(conditions.values())


def _samplers(
    conditions: Sequence[Conditions], engine: Engine, loaded: LoadedModel, stack: ExitStack
) -> Iterator[Sampler]:
    """For each of the conditions, with a grader that `stack` closes."""
    for condition in conditions:
        config = condition.config
        grader = stack.enter_context(Grader(config.task.grading))
        sampler = Sampler(engine, grader, loaded.tokenizer, config.sampling, config.seed)
        yield evaluation_sampler(sampler, config.evaluation)


def _evaluate(
    conditions: Conditions,
    sampler: Sampler,
    test_P: Sequence[Prompt],
    iteration: int,
    file: Path,
    progress: Progress,
) -> str:
    """Evaluates the engine's policy into `file`; the scores in words."""
    samples = conditions.config.evaluation.num_samples
    result = evaluate_policy(sampler, test_P, samples, iteration, progress)
    if conditions.other_task is not None:
        result["task"] = conditions.other_task
    write_atomic(file, strict_json(result, indent=2))
    names = dict.fromkeys(["pass@1", f"pass@{samples}"])
    return "  ".join(f"{name} {result[name]:.3f}" for name in names)


def choose_policies(run: RunDir, checkpoints: str) -> list[tuple[int, Path]]:
    """(iteration, directory of the policy) for "all", "last" or "N,N…"."""
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
