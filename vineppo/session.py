"""The surroundings of every training loop: models, engine, run directory, resume."""

import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from vineppo.checkpoint import (
    TEMPORARY,
    Models,
    Saved,
    TrainState,
    read_newest_state,
    save_checkpoint,
    write_whole,
)
from vineppo.config.load import to_dict, user_digests
from vineppo.config.schema import AnyConfig, SftConfig, TrainConfig
from vineppo.distributed import (
    barrier,
    from_main,
    gather,
    init_distributed,
    interruptible,
    interruption,
    is_main,
    raise_if_any,
)
from vineppo.engine import EngineCounts
from vineppo.errors import InterruptionError, UserError
from vineppo.evaluate import evaluate_policy, headline
from vineppo.metrics import merged_grading
from vineppo.models import LoadedModel
from vineppo.policy import Policy
from vineppo.progress import Progress, log_to, say, tracked
from vineppo.rollouts import Prompt, Sampler, Scorer
from vineppo.run_dir import RunDir
from vineppo.tasks.environments import build_environment
from vineppo.tasks.grading import Grader


@dataclass
class BareSession:
    """A run in progress, whatever it trains. `finish_iteration` moves its `state` on."""

    config: AnyConfig
    num_iterations: int
    run: RunDir
    models: Saved
    progress: Progress
    track: Callable[[dict[str, Any]], None]
    state: TrainState

    def iterations(self) -> Iterator[int]:
        """The iterations that are left, from 1."""
        yield from range(self.state.iteration + 1, self.num_iterations + 1)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """After SIGTERM or Ctrl-C, saves the last iteration if the config asks for checkpoints."""
        with interruptible():
            try:
                yield
            except InterruptionError as signal:
                done, config = self.state.iteration, self.config.checkpoint
                again = "goes on from there" if config.every else "begins again"
                self.progress.say(
                    f"interrupted ({signal}) after iteration {done}; the same command {again}"
                )
                path = self.run.checkpoint_path(done)
                if config.every and done and not from_main(path.exists):
                    save_checkpoint(self.run, self.models, self.state, config.keep)
                raise

    def is_evaluation_due(self, iteration: int) -> bool:
        """On schedule, at the end, and at the start as iteration 0."""
        every = self.config.evaluation.every
        return iteration in (0, self.num_iterations) or (every > 0 and iteration % every == 0)

    def finish_iteration(
        self, iteration: int, metrics: dict[str, Any], kl_coef: float = 0.0
    ) -> None:
        """Writes a checkpoint if due, then the metrics, so that a kill between loses nothing."""
        metrics = {"iteration": iteration, **metrics, "memory/peak_gib": peak_gib()}
        metrics |= self.progress.take_times()
        elapsed_s = metrics["time/elapsed_s"]
        self.state = replace(
            self.state, iteration=iteration, elapsed_s=elapsed_s, metrics=metrics, kl_coef=kl_coef
        )
        every = self.config.checkpoint.every
        if every > 0 and (iteration % every == 0 or iteration == self.num_iterations):
            self.progress.enter("checkpoint")
            save_checkpoint(self.run, self.models, self.state, self.config.checkpoint.keep)
            times = self.progress.take_times()  # of the same iteration; `elapsed_s` is no sum
            metrics |= {name: metrics[name] + seconds for name, seconds in times.items()}
            metrics["time/elapsed_s"] = times["time/elapsed_s"]
            self.state = replace(self.state, elapsed_s=times["time/elapsed_s"])
        if is_main():
            self.run.append_metrics(metrics)
            self.track(metrics)
        self.progress.finish_iteration(iteration, self.num_iterations, metrics)
        if iteration < self.num_iterations:
            raise_if_any(gather(interruption()))


@dataclass
class Session(BareSession):
    """A run with a policy and an engine that samples from it."""

    config: TrainConfig | SftConfig
    models: Models
    sampler: Sampler
    test_P: list[Prompt]
    counts: EngineCounts

    @property
    def policy(self) -> Policy:
        return self.models.policy

    def wake_engine(self, with_new_weights: bool) -> None:
        """Has the engine sample from the present policy, and from nothing cached before."""
        self.progress.enter("sync")
        self.sampler.engine.wake()
        if with_new_weights:
            self.sampler.engine.load_weights(self.policy.named_weights())
        else:
            self.sampler.engine.clear_cache()  # so that a resumed run starts as this one goes on

    def evaluate_if_due(self, iteration: int) -> dict[str, float]:
        """pass@1 and pass@K of the engine's policy as `eval/*`, if an evaluation is due."""
        if not self.is_evaluation_due(iteration):
            return {}
        self.progress.enter("evaluate")
        evaluation = evaluate_policy(
            self.sampler, self.test_P, self.config.evaluation, iteration, self.progress
        )
        self.sampler.engine.clear_cache()  # so that training does not depend on evaluation
        self.sampling_metrics()
        if is_main():
            self.run.write_evaluation(iteration, evaluation)
        return {f"eval/{name}": score for name, score in headline(evaluation).items()}

    def sampling_metrics(self) -> dict[str, float]:
        """Work of all ranks' engines and graders since the last call or evaluation."""
        before, self.counts = self.counts, self.sampler.engine.counts
        mine = {
            "tokens/prompt": self.counts.prompt_tokens - before.prompt_tokens,
            "tokens/prefix_cached": self.counts.cached_tokens - before.cached_tokens,
            "rollout/engine_retries": self.counts.num_retries - before.num_retries,
        }
        of_replicas = gather((mine, self.sampler.grader.metrics()))
        counts_R, grading_R = zip(*of_replicas[:: self.sampler.engine.ranks_a_replica], strict=True)
        totals = {name: sum(counts[name] for counts in counts_R) for name in mine}
        return totals | merged_grading(grading_R)


@contextmanager
def open_session(
    config: TrainConfig | SftConfig,
    num_iterations: int,
    run: RunDir,
    test_P: list[Prompt],
    loaded: LoadedModel,
    start_models: Callable[[], Models],
    kl_coef: float = 0.0,
    scorer: Scorer | None = None,
) -> Iterator[Session]:
    """Starts the engine and the models, restores the last checkpoint, evaluates the start."""
    with ExitStack() as stack:
        if is_main():
            stack.enter_context(log_to(run.path / "train.log"))
        grader = stack.enter_context(
            Grader(config.task.grading, opening=config.task.prompt.response_prefix)
        )
        init_distributed()
        say(f"{config.name}: the engine starts, on a GPU in a minute or more")
        engine = config.engine.build(loaded.engine_model)  # its memory profile needs an empty GPU
        engine.sleep()
        models = start_models()
        environment = build_environment(config.task, loaded.tokenizer, loaded.engine_model)
        sampler = Sampler(
            engine, grader, loaded.tokenizer, config.sampling, config.seed, scorer, environment
        )
        record = stack.enter_context(open_record(config, num_iterations, run, models, kl_coef))
        session = Session(
            config, num_iterations, run, models, *record, sampler, test_P, engine.counts
        )
        state, progress = session.state, session.progress
        session.wake_engine(with_new_weights=True)
        if state.iteration == 0:
            metrics = session.evaluate_if_due(0)
            progress.say("iteration 0  " + "  ".join(f"{k} {v:.3f}" for k, v in metrics.items()))
        progress.restart()
        with session.interruptible():
            yield session
        write_whole(run.final_path, models.save_hf)  # it says that the run is finished


@contextmanager
def open_record(
    config: AnyConfig, num_iterations: int, run: RunDir, models: Saved, kl_coef: float
) -> Iterator[tuple[Progress, Callable[[dict[str, Any]], None], TrainState]]:
    """Restores the newest checkpoint, and discards what was written after it."""
    if is_main():
        for leftover in run.checkpoints_path.glob(f"{TEMPORARY}*"):  # of a killed process
            shutil.rmtree(leftover)
    state = from_main(lambda: read_newest_state(run))
    if state is None:
        state = TrainState(0, 0.0, {}, kl_coef)
    else:
        models.load_state(run.checkpoint_path(state.iteration) / "trainer")
    if is_main():
        run.discard_after(state.iteration)
        if run.last_logged_iteration() < state.iteration:
            run.append_metrics(state.metrics)
    barrier()
    with (
        Progress(num_iterations, state.iteration, state.elapsed_s) as progress,
        tracked(config, run.path) as track,
    ):
        where = f"resumed after iteration {state.iteration}" if state.iteration else "started"
        progress.say(f"{config.name}: {where}, {num_iterations} iterations, in {run.path}")
        yield progress, track, state


def open_run_dir(config: AnyConfig, directory: Path) -> RunDir:
    """Makes or re-opens the run directory in the main process alone."""
    run = RunDir(directory)

    def opened() -> None:
        nonlocal run  # the lock stays in this process
        run = RunDir.open(directory, to_dict(config), user_digests(config))

    from_main(opened)
    return run


def is_finished(config: AnyConfig, directory: Path) -> bool:
    """True if the run is finished; `UserError`, before models load, for what would stop it."""
    run = RunDir(directory)

    def finished() -> bool:
        if not run.check(to_dict(config), user_digests(config)):
            return False
        if not run.final_path.is_dir():
            read_newest_state(run)
            return False
        print(f"{config.name}: finished already, in {run.path}")
        return True

    is_done: bool = from_main(finished)
    if not is_done and config.logging.wandb_project is not None and find_spec("wandb") is None:
        raise UserError("logging.wandb_project needs the package wandb, which is not installed")
    return is_done


def peak_gib() -> float:
    """Peak memory: allocated on the GPU, or resident in this process without one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
