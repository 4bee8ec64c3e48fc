"""How far the sampling of an analysis is: a bar on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vineppo.engine import Engine

LINE_EVERY_S = 15.0


class Meter:
    """Counts finished pieces of work of `total`, and the engine's tokens per second.

    with Meter("iteration 10", total=512, done=0, engine=engine) as meter:
        meter.advance()
    """

    def __init__(self, title: str, total: int, done: int, engine: Engine) -> None:
        self._title, self._total, self.done, self._engine = title, total, done, engine
        self._started = self._said = time.perf_counter()
        self._tokens = engine.counts.sampled_tokens
        console = Console()
        self._is_terminal = console.is_terminal
        columns = BarColumn(24), MofNCompleteColumn(), TimeRemainingColumn()
        self._bar = Progress(
            TextColumn("{task.description}"), *columns, TextColumn("{task.fields[rate]}"),
            console=console, transient=True, disable=not self._is_terminal,
            speed_estimate_period=600,
        )  # fmt: skip
        self._task = self._bar.add_task(title, total=total, completed=done, rate="")

    def __enter__(self) -> "Meter":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if kind is None:
            print(self.line(), flush=True)

    def advance(self) -> None:
        self.done += 1
        self.tick()

    def tick(self) -> None:
        now = time.perf_counter()
        self._bar.update(self._task, completed=self.done, rate=f"{self.tokens_per_s:,.0f} tok/s")
        if not self._is_terminal and now - self._said > LINE_EVERY_S:
            self._said = now
            print(self.line(), flush=True)

    @property
    def num_tokens(self) -> int:
        """Sampled since the start."""
        return self._engine.counts.sampled_tokens - self._tokens

    @property
    def time_s(self) -> float:
        return time.perf_counter() - self._started

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / max(self.time_s, 1e-9)

    def line(self) -> str:
        rate = f"{self.num_tokens:,} tokens, {self.tokens_per_s:,.0f} tok/s, {self.time_s:.0f} s"
        return f"{self._title}: {self.done}/{self._total}, {rate}"
