"""The policies of runs: where they are, one engine for all of them, and a table for each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from analysis.frames import choose_iterations, existing_run_dir
from analysis.frames import read_config as read_resolved
from analysis.sampling.journal import Journal, is_made, write_settings
from analysis.sampling.rollouts import rollout_iteration
from analysis.tables import table_path
from vineppo.checkpoint import checkpoint_iterations
from vineppo.config.schema import TrainConfig
from vineppo.distributed import init_distributed, refuse_several_processes
from vineppo.encoding import encode_problems
from vineppo.errors import UserError
from vineppo.models import LoadedModel, load_model, named_weights
from vineppo.policy import Reference
from vineppo.rollouts import Prompt, Sampler
from vineppo.run_dir import RunDir, write_parquet
from vineppo.run_dir.config import read_config
from vineppo.tasks import TaskData, load_task
from vineppo.tasks.environments import build_environment
from vineppo.tasks.grading import Grader
from vineppo.token_scores import ForwardOptions, RolloutPass, TokenLogprobs, TokenScores, entropies
from vineppo.types import MONTE_CARLO, SAME_AS, Problem, Rollout, StateValue, TrainBatch
from vineppo.values import ValuePredictor, predictors_at, read_policy

Settings = dict[str, Any]


class Policies:
    """The policies of runs that share task, model and sampling, one at a time in an engine.

    The engine starts when it is first asked for. `sampler` samples as the runs did while training;
    no random stream is one of the training's.
    """

    def __init__(self, config: TrainConfig, seed: int, stack: ExitStack) -> None:
        self.config = config
        self._seed = seed
        self._stack = stack

    @cached_property
    def loaded(self) -> LoadedModel:
        """The starting policy."""
        model = self.config.model
        return load_model(model.path, model.dtype, model.attention)

    @cached_property
    def sampler(self) -> Sampler:
        config = self.config
        grader = self._stack.enter_context(
            Grader(config.task.grading, opening=config.task.prompt.response_prefix)
        )
        init_distributed()
        loaded = self.loaded
        engine = config.engine.alone().build(loaded.engine_model)
        environment = build_environment(config.task, loaded.tokenizer, loaded.engine_model)
        return Sampler(
            engine, grader, loaded.tokenizer, config.sampling, self._seed, environment=environment
        )

    @cached_property
    def start(self) -> Reference:
        """The starting policy as a reference, whatever the run's is."""
        return Reference(replace(self.config.reference, path=None), self.config.model, self.loaded)

    @cached_property
    def train_by_id(self) -> dict[str, Prompt]:
        """The problems as token ids."""
        prompts = encode_problems(
            self.config, self.loaded, self._task.train_P, self.config.task.too_long
        )
        return {prompt.problem.id.partition(SAME_AS)[0]: prompt for prompt in prompts}

    @cached_property
    def test_P(self) -> list[Prompt]:
        return encode_problems(self.config, self.loaded, self._task.test_P)

    @cached_property
    def _task(self) -> TaskData:
        return load_task(self.config.task)

    def load(self, path: str) -> Any:
        """The engine samples from the model at `path` from now on; returns that model."""
        model = load_model(path, self.config.model.dtype, self.config.model.attention).model
        self.sampler.engine.load_weights(named_weights(model))
        return model

    def prompt(self, problem_id: str) -> Prompt:
        key = problem_id.partition(SAME_AS)[0]  # older runs name no first problem
        if key not in self.train_by_id:
            raise UserError(f"problem {problem_id} of the rollouts is none of the task's")
        return self.train_by_id[key]

    def problem(self, problem_id: str) -> Problem:
        return self.prompt(problem_id).problem

    @property
    def has_engine(self) -> bool:
        """True once it has been started."""
        return "sampler" in vars(self)

    @contextmanager
    def engine_asleep(self) -> Iterator[None]:
        """The memory is the models'. The engine's weights are there again afterwards."""
        if self.has_engine:
            self.sampler.engine.sleep()
        yield
        if self.has_engine:
            self.sampler.engine.wake()


@contextmanager
def open_policies(paths: Sequence[Path], seed: int) -> Iterator[Policies]:
    """The policies of the runs at `paths`, which must share task, model and sampling."""
    refuse_several_processes("this analysis")
    with ExitStack() as stack:
        yield Policies(shared_config(paths), seed, stack)


def train_config(path: Path) -> TrainConfig:
    existing_run_dir(path)
    config = read_config(path)
    if not isinstance(config, TrainConfig):
        raise UserError(f"{path} is a run of supervised fine-tuning, which has no rollouts")
    return config


def shared_config(paths: Sequence[Path]) -> TrainConfig:
    """The first run's config. Raises `UserError` where another differs in what sampling needs."""
    configs = list(map(train_config, paths))
    for path, config in zip(paths, configs, strict=True):
        for key in ("task", "model", "sampling", "engine"):
            if getattr(config, key) != getattr(configs[0], key):
                raise UserError(
                    f"{paths[0]} and {path} differ in {key}; runs that are sampled together must "
                    "share task, model, sampling and engine"
                )
    return configs[0]


def policy_paths(run_path: Path, start: str) -> dict[int, str]:
    """Paths of a run's policies by iteration; `start`, the config's `model.path`, comes first."""
    run = RunDir(run_path)
    paths = {0: start}
    for iteration in checkpoint_iterations(run):
        paths[iteration] = str(run.checkpoint_path(iteration) / "policy")
    if run.final_path.is_dir():
        paths[run.last_logged_iteration()] = str(run.final_path / "policy")
    return dict(sorted(paths.items()))


@dataclass(frozen=True)
class Checkpoint:
    """A policy of a run, and the table that is to be made of it with `settings`."""

    run_path: Path
    iteration: int
    policy_path: str
    table: Path
    settings: Settings

    @cached_property
    def config(self) -> TrainConfig:
        return train_config(self.run_path)

    @property
    def directory(self) -> Path | None:
        """Where critics and other predictors lie beside the policy; None at the start."""
        return Path(self.policy_path).parent if self.iteration else None

    @property
    def title(self) -> str:
        return f"{self.run_path}, checkpoint {self.iteration}"


def add_values(
    policies: Policies,
    checkpoint: Checkpoint,
    rollouts: Sequence[Rollout],
    branches: Sequence[Rollout] = (),
) -> dict[str, int]:
    """Sets what the checkpoint's predictors say of the rollouts' states, and of branches of them.

    Predictors of continuations, and of their returns, say nothing without continuations. Predictors
    that need the engine's text are asked if it runs (with the checkpoint's policy); else their
    values from training stand. Returns the names of all but the continuations, and the number of
    weights of each one's own model.
    """
    num_weights, asking = {}, []
    with policies.engine_asleep():
        predictors = predictors_at(checkpoint.config, checkpoint.directory)
        if any(p.reads_hidden or p.reads_entropies or p.num_candidates for p in predictors):
            _pass_policy(checkpoint, predictors, [*rollouts, *branches])
        predictors.sort(key=lambda one: (one.options.values_of is not None, one.is_made_of_returns))
        while predictors:
            predictor = predictors.pop(0)  # its memory is the next one's, or the engine's
            if predictor.num_continuations:
                _take_returns(predictor, rollouts)
                continue
            read, prior = predictor.options.returns_of, predictor.options.values_of
            if predictor.is_made_of_returns and any(
                read not in one.returns_S for one in (*rollouts, *branches)
            ):
                continue
            if prior and prior not in num_weights:
                continue
            num_weights[predictor.name] = predictor.num_weights
            if predictor.is_sampled:
                asking.append(predictor)
                continue
            predictor.estimate(rollouts)
            predictor.estimate_after(rollouts)
            if branches:
                predictor.estimate_branches(branches, rollouts)
            del predictor
    if policies.has_engine and asking:
        _ask_engine(policies, checkpoint, asking, [*rollouts, *branches])
    return num_weights


def _pass_policy(
    checkpoint: Checkpoint, predictors: Sequence[ValuePredictor], rollouts: Sequence[Rollout]
) -> None:
    """As training does: sets "trainer_logprobs" and what predictors read of the policy's pass."""
    config = checkpoint.config
    scores, device = _scores_of(checkpoint)
    (logprobs,) = read_policy(
        rollouts, predictors, scores, ForwardOptions(config.sampling.temperature),
        lambda scores: [scores.logprobs_BT], config.optimization.logprobs_micro_batch_size, device,
    )  # fmt: skip
    for rollout, logprobs_T in zip(rollouts, logprobs, strict=True):
        rollout.tokens_T["trainer_logprobs"] = logprobs_T


def add_entropies(policies: Policies, checkpoint: Checkpoint, rollouts: Sequence[Rollout]) -> None:
    """As training does: sets "entropies", those of the checkpoint's policy."""
    config = checkpoint.config
    with policies.engine_asleep():
        scores, device = _scores_of(checkpoint)
        size = config.optimization.logprobs_micro_batch_size
        forward = entropies(scores, config.sampling.temperature)
        entropy_pass = RolloutPass("entropies", forward, size, device)
        for rollout in rollouts:
            entropy_pass.add(rollout)
        entropy_pass.work()


def _scores_of(
    checkpoint: Checkpoint,
) -> tuple[Callable[[TrainBatch, ForwardOptions], TokenScores], torch.device]:
    """The pass of the checkpoint's policy, and where it runs."""
    model = checkpoint.config.model
    loaded = load_model(checkpoint.policy_path, model.dtype, model.attention)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).to(device).eval()
    return lambda batch, options: TokenScores(**module(batch, options)), device


def _ask_engine(
    policies: Policies,
    checkpoint: Checkpoint,
    predictors: Sequence[ValuePredictor],
    rollouts: Sequence[Rollout],
) -> None:
    """The values for which the engine writes text."""
    sampler = policies.sampler
    streams = [predictor.open_stream(sampler, checkpoint.iteration) for predictor in predictors]
    for rollout in rollouts:
        for stream in streams:
            stream.submit(rollout)
    sampler.finish()
    for predictor, stream in zip(predictors, streams, strict=True):
        predictor.merge(rollouts, [stream.settle()])


def _take_returns(predictor: ValuePredictor, rollouts: Sequence[Rollout]) -> None:
    """The first of the fresh continuations, if they suffice and the predictor has none."""
    name, number = predictor.name, predictor.num_continuations
    for rollout in rollouts:
        fresh = rollout.returns_S.get(MONTE_CARLO, ())
        if name in rollout.returns_S or not fresh or len(fresh[0].returns_K) < number:
            return
        values_S = [
            StateValue(v.returns_K[:number], v.num_tokens * number // len(v.returns_K))
            for v in fresh
        ]
        rollout.returns_S[name] = values_S
        predictor.set_values([rollout], [[value.mean for value in values_S]])


# (policies, the checkpoint, its journal) → the table's rows, and what to note with its settings.
Make = Callable[[Policies, Checkpoint, Journal], tuple[list[dict[str, Any]], dict[str, Any]]]


def choose_checkpoints(
    run_paths: Sequence[Path],
    wanted: str,
    out: Path,
    folder: str,
    settings: Settings,
    with_rollouts: bool = False,
) -> list[Checkpoint]:
    """The policies that `--checkpoints` names of every run, on request those with rollouts.

    The settings name the run of a table, because directories of one name share it.
    """
    chosen = []
    for path in run_paths:
        config = read_resolved(path)
        policies = policy_paths(path, config["model"]["path"])
        usable = [i for i in policies if not with_rollouts or rollout_iteration(path, i)]
        if not usable:
            raise UserError(f"{path} has no policy whose rollouts are saved")
        whose: Settings = {"run": path.resolve().name}
        whose |= {"method": config.get("name"), "run_seed": config.get("seed")}
        for i in choose_iterations(usable, wanted, "--checkpoints", f"{path} has no policy"):
            table = table_path(out, folder, path, i)
            about = whose | {"checkpoint": i} | settings
            chosen.append(Checkpoint(path, i, policies[i], table, about))
    return chosen


def make_tables(chosen: Sequence[Checkpoint], schema: pa.Schema, make: Make) -> list[Path]:
    """The paths of all tables; makes missing ones and resumes interrupted ones."""
    missing = [
        checkpoint for checkpoint in chosen if not is_made(checkpoint.table, checkpoint.settings)
    ]
    if missing:
        run_paths = list(dict.fromkeys(checkpoint.run_path for checkpoint in chosen))
        with open_policies(run_paths, missing[0].settings["seed"]) as policies:
            for checkpoint in missing:
                journal = Journal(
                    checkpoint.table.with_suffix(".partial.jsonl"), checkpoint.settings
                )
                rows, about = make(policies, checkpoint, journal)
                write_parquet(checkpoint.table, rows, schema)
                write_settings(checkpoint.table, checkpoint.settings | about)
                journal.close()
    return [checkpoint.table for checkpoint in chosen]
