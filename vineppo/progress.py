"""Where an iteration's time goes, and where a person sees it: terminal, train.log and wandb."""

import hashlib
import importlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from vineppo.config.load import to_dict
from vineppo.config.schema import AnyConfig
from vineppo.distributed import is_main
from vineppo.engine import Engine
from vineppo.errors import UserError

PHASES = ("rollout", "values", "grading", "logprobs", "update", "sync", "evaluate", "checkpoint")
REFRESH_S = 0.25

logger = logging.getLogger(__name__)


class Progress:
    """Phases one after another, timed, with a live bar on a terminal and plain lines elsewhere."""

    def __init__(self, num_iterations: int, done: int, elapsed_s: float) -> None:
        self._phase: str | None = None
        self._since = time.perf_counter()
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._elapsed_s = elapsed_s
        self.started_s = self._since  # the iteration in progress; by `time.perf_counter`
        self._shown = (self._since, 0)
        self._latest: dict[str, Any] = {}
        self._summary = ""
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}"),
            console=Console(),
            transient=True,
            disable=not (Console().is_terminal and is_main()),
            speed_estimate_period=3600,
        )
        self._task = self._bar.add_task("start", total=num_iterations, completed=done, now="")

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def enter(self, phase: str | None) -> None:
        """Ends the current phase and begins another; None counts nothing."""
        if phase == self._phase:
            return
        now = time.perf_counter()
        if self._phase is not None:
            self._seconds[self._phase] += now - self._since
        self._phase, self._since = phase, now
        self._bar.update(self._task, description=phase or "", now=self._summary)

    def tick(self, engine: Engine) -> None:
        """Shows tokens/s; cheap enough for every engine step."""
        now = time.perf_counter()
        then, tokens = self._shown
        if now - then < REFRESH_S:
            return
        sampled = engine.counts.sampled_tokens
        self._shown = now, sampled
        rate = f"{(sampled - tokens) / (now - then):,.0f} tok/s"
        waiting = f"{engine.num_unfinished:,} running"
        self._bar.update(self._task, now=f"{rate}  {waiting}  {self._summary}")

    def restart(self) -> None:
        """Drops the time until now: start-up and the first evaluation are not training."""
        self.enter(None)
        self.started_s = time.perf_counter()
        self._seconds = dict.fromkeys(PHASES, 0.0)

    def take_times(self) -> dict[str, float]:
        """`time/*_s` of the iteration. `elapsed_s` counts training, over all resumes."""
        begun, seconds = self.started_s, self._seconds
        self.restart()
        total = self.started_s - begun
        self._elapsed_s += total - seconds["evaluate"]
        times = {f"time/{phase}_s": x for phase, x in seconds.items()}
        return {**times, "time/total_s": total, "time/elapsed_s": self._elapsed_s}

    def finish_iteration(
        self, iteration: int, num_iterations: int, metrics: dict[str, Any]
    ) -> None:
        """Advances the bar and says the iteration's numbers in a line."""
        self._latest.update({name: metrics[name] for name in ON_BAR if name in metrics})
        self._summary = summary(self._latest)
        self.advance(iteration)
        self.say(f"iteration {iteration}/{num_iterations}  {summary(metrics)}")

    def advance(self, done: int) -> None:
        self._bar.update(self._task, completed=done, now=self._summary)

    def say(self, text: str) -> None:
        say(text, self._bar.console)


def say(text: str, console: Console | None = None) -> None:
    """One line on the terminal, which may have a bar, and in train.log."""
    if not is_main():
        return
    (console or Console()).print(text, highlight=False, markup=False, soft_wrap=True)
    logger.info(text)


# Shown where they are not 0: with weights that are NaN all updates are skipped.
TOLD = ("skipped_updates", "num_timeouts", "num_worker_deaths")
ON_BAR = ("eval/pass@1", "eval/pair_accuracy", "reward/mean", "sft/loss", "reward_model/loss")
SHOWN = {
    "eval/pass@1": "pass@1 {:.3f}",
    "eval/pair_accuracy": "pair accuracy {:.3f}",
    "reward/mean": "reward {:.3f}",
    "sft/loss": "loss {:.4f}",
    "reward_model/loss": "loss {:.4f}",
    "critic/explained_variance": "ev {:.2f}",
    "kl/ref": "kl {:.4f}",
    "policy/entropy": "entropy {:.3f}",
    "rollout/response_length_mean": "length {:.1f}",
    "rollout/engine_logprob_gap_max": "gap {:.1e}",
    "time/total_s": "{:.1f} s",
}


def summary(metrics: dict[str, Any]) -> str:
    """The numbers a person watches: "pass@1 0.612  reward 0.583  kl 0.0102 …"."""
    shown = [text.format(metrics[name]) for name, text in SHOWN.items() if name in metrics]
    shown += [f"{name} {n:g}" for name, n in metrics.items() if name.endswith(TOLD) and n]
    return "  ".join(shown)


@contextmanager
def tracked(config: AnyConfig, directory: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yields what logs an iteration's metrics to wandb, if asked for; offline by default."""
    project = config.logging.wandb_project
    if project is None or not is_main():
        yield lambda _: None
        return
    os.environ.setdefault("WANDB_MODE", "offline")
    os.environ.setdefault("WANDB_SILENT", "true")
    wandb = importlib.import_module("wandb")
    # One id a run directory: a resumed run continues, and wandb skips iterations that it has.
    identity = hashlib.blake2b(str(directory.resolve()).encode(), digest_size=8).hexdigest()
    run = wandb.init(
        project=project, name=config.name, id=identity, resume="allow",
        dir=str(directory), config=to_dict(config),
    )  # fmt: skip
    try:
        yield lambda metrics: run.log(metrics, step=metrics["iteration"])
    finally:
        run.finish()
        wandb.teardown()  # or processes that start later would share its service and its ids


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """`vineppo`'s log records go to `path`. Raises `UserError` where the disk is full."""
    handler = _LogFile(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    root = logging.getLogger("vineppo")
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        with suppress(OSError):  # a full disk was reported before
            handler.close()


class _LogFile(logging.FileHandler):
    """A line that cannot be written ends the run; logging would print a traceback for each."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        raise UserError(f"cannot write {self.baseFilename}: {error.strerror}") from error
