"""The policies of runs in one engine, one after another."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.frames import choose_iterations, existing_run_dir
from vineppo.checkpoint import checkpoint_iterations
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed
from vineppo.encoding import encode_problems, encode_train_problems
from vineppo.engine import build_engine, lone_engine
from vineppo.errors import UserError
from vineppo.evaluate import read_config
from vineppo.models import LoadedModel, load_model, named_weights
from vineppo.rollouts import Prompt, Sampler
from vineppo.run_dir import RunDir
from vineppo.session import refuse_several_processes
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader


@dataclass(frozen=True)
class Policies:
    """An engine that holds one policy at a time, and the problems by id as token ids.

    `sampler` samples as the runs did while training: temperature, top_p and token budget.
    """

    config: TrainConfig
    loaded: LoadedModel
    sampler: Sampler
    train_by_id: dict[str, Prompt]
    test_P: list[Prompt]

    def load(self, path: str) -> Any:
        """The engine samples from the model at `path` from now on; returns that model."""
        model = load_model(path, self.config.model.dtype, self.config.model.attention).model
        self.sampler.engine.load_weights(named_weights(model))
        return model

    def prompt(self, problem_id: str) -> Prompt:
        if problem_id not in self.train_by_id:
            raise UserError(f"problem {problem_id} of the rollouts is none of the task's")
        return self.train_by_id[problem_id]


@contextmanager
def open_policies(paths: Sequence[Path], seed: int) -> Iterator[Policies]:
    """Starts the engine of the runs at `paths`, which must share task, model and sampling.

    `seed` is that of the analysis: no random stream is one of the training's.
    """
    refuse_several_processes("this analysis")
    config = shared_config(paths)
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    task = load_task(config.task)
    train_P = encode_train_problems(config, loaded, task.train_P)
    test_P = encode_problems(config, loaded, task.test_P)
    with ExitStack() as stack:
        grader = stack.enter_context(Grader(config.task.grading))
        init_distributed()
        engine = build_engine(lone_engine(config.engine), loaded.engine_model)
        sampler = Sampler(engine, grader, loaded.tokenizer, config.sampling, seed)
        by_id = {prompt.problem.id: prompt for prompt in train_P}
        yield Policies(config, loaded, sampler, by_id, test_P)


def at_temperature(sampler: Sampler, temperature: float, top_p: float) -> Sampler:
    sampling = replace(sampler.sampling, temperature=temperature, top_p=top_p)
    return replace(sampler, sampling=sampling)


def shared_config(paths: Sequence[Path]) -> TrainConfig:
    """The first run's config. Raises `UserError` where another differs in what sampling needs."""
    configs = []
    for path in paths:
        existing_run_dir(path)
        config = read_config(path, [])
        if not isinstance(config, TrainConfig):
            raise UserError(f"{path} is a run of supervised fine-tuning, which has no rollouts")
        configs.append(config)
    for path, config in zip(paths, configs, strict=True):
        for key in ("task", "model", "sampling", "engine"):
            if getattr(config, key) != getattr(configs[0], key):
                raise UserError(
                    f"{paths[0]} and {path} differ in {key}; runs that are sampled together must "
                    "share task, model, sampling and engine"
                )
    return configs[0]


def policy_paths(run_path: Path, start: str) -> dict[int, str]:
    """Where each policy of a run is, by iteration: the starting one, checkpoints, the final one.

    `start` is the config's `model.path`.
    """
    run = RunDir(run_path)
    found = {0: start}
    for iteration in checkpoint_iterations(run):
        found[iteration] = str(run.checkpoint_path(iteration) / "policy")
    if run.final_path.is_dir():
        found[run.last_logged_iteration()] = str(run.final_path / "policy")
    return dict(sorted(found.items()))


def choose(available: Sequence[int], wanted: str, owner: Path) -> list[int]:
    """What `--checkpoints` names of the policies of the run directory `owner`."""
    return choose_iterations(available, wanted, "--checkpoints", f"{owner} has no policy")
