"""`vineppo evaluate`: pass@k of the checkpoints of a run, under its own or other conditions."""

from contextlib import ExitStack
from pathlib import Path

from vineppo.checkpoint import checkpoint_iterations
from vineppo.config.load import assign, parse_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.distributed import init_distributed
from vineppo.engine import build_engine
from vineppo.errors import UserError
from vineppo.evaluation import evaluate_policy, evaluation_sampler
from vineppo.models import load_model, named_weights
from vineppo.progress import Progress
from vineppo.rollouts import Sampler
from vineppo.run_dir import RunDir
from vineppo.run_dir.atomic import write_atomic
from vineppo.run_dir.evaluations import folder_name
from vineppo.run_dir.metrics_log import strict_json
from vineppo.session import encode_problems, refuse_several_processes
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader


def evaluate_run(directory: Path, checkpoints: str, assignments: list[str]) -> None:
    """Evaluates and prints a line a checkpoint.

    Results go to `RUN_DIR/evaluations/iter_….json`, or, with `--set`, to a subfolder named after
    the assignments, so that the run's own evaluations stay as they were.
    """
    refuse_several_processes("vineppo evaluate")
    config = read_config(directory, assignments)
    run = RunDir(directory)
    policies = choose_policies(run, checkpoints)
    target = directory / "evaluations" / folder_name(assignments)
    task = load_task(config.task)
    dtype, attention = config.model.dtype, config.model.attention
    loaded = load_model(str(policies[0][1]), dtype, attention)
    test_P = encode_problems(config, loaded, task.test_P)
    with ExitStack() as stack:
        grader = stack.enter_context(Grader(config.task.grading))
        init_distributed()
        engine = build_engine(config.engine, loaded.engine_model)
        progress = stack.enter_context(Progress(len(policies), 0, 0.0))
        sampler = Sampler(engine, grader, loaded.tokenizer, config.sampling, config.seed)
        sampler = evaluation_sampler(sampler, config.evaluation)
        for done, (iteration, path) in enumerate(policies, start=1):
            engine.load_weights(named_weights(load_model(str(path), dtype, attention).model))
            progress.enter("evaluate")
            samples = config.evaluation.num_samples
            result = evaluate_policy(sampler, test_P, samples, iteration, progress)
            file = target / f"iter_{iteration:06d}.json"
            write_atomic(file, strict_json(result, indent=2))
            text = f"pass@1 {result['pass@1']:.3f}  pass@{samples} {result[f'pass@{samples}']:.3f}"
            progress.advance(done)
            progress.say(f"{path}: {text}  ({file})")


def read_config(directory: Path, assignments: list[str]) -> TrainConfig | SftConfig:
    """The config of a run with the assignments applied."""
    run = RunDir(directory)
    if not run.config_path.is_file():
        raise UserError(f"not a run directory (no config.json): {directory}")
    resolved = run.read_config()
    for assignment in assignments:
        assign(resolved, assignment)
    if "rollouts" in resolved:
        return parse_config(TrainConfig, resolved)
    return parse_config(SftConfig, resolved)


def choose_policies(run: RunDir, checkpoints: str) -> list[tuple[int, Path]]:
    """(iteration, directory of the policy) for "all", "last" or "N,N…"."""
    found = {i: run.checkpoint_path(i) / "policy" for i in checkpoint_iterations(run)}
    if run.final_path.is_dir():
        found[run.last_logged_iteration()] = run.final_path / "policy"
    if not found:
        raise UserError(f"{run.path} holds no checkpoint")
    if checkpoints == "all":
        return sorted(found.items())
    if checkpoints == "last":
        return [max(found.items())]
    try:
        wanted = [int(text) for text in checkpoints.split(",")]
    except ValueError:
        raise UserError(
            f"--checkpoints must be all, last or numbers with commas, got {checkpoints!r}"
        ) from None
    for iteration in wanted:
        if iteration not in found:
            held = ", ".join(map(str, sorted(found)))
            raise UserError(
                f"{run.path} holds no checkpoint of iteration {iteration} (only {held})"
            )
    return [(iteration, found[iteration]) for iteration in wanted]
