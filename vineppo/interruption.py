"""SIGTERM and Ctrl-C end a run where nothing is half done, so that it can leave a checkpoint."""

import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from vineppo.distributed import num_ranks
from vineppo.errors import InterruptionError

POLL_S = 1.0
T = TypeVar("T")
_asked: str | None = None  # a handler can tell nobody but its module


@contextmanager
def interruptible() -> Iterator[None]:
    """In the body the first signal is only noted, for `interruption`; a second Ctrl-C interrupts.

    A second SIGTERM does not: a scheduler sends it to every process, and launchers pass on their
    own. Outside of the main thread, which alone may handle signals, nothing is changed.
    """
    global _asked
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        _asked = None
        for number, handler in before.items():
            signal.signal(number, handler)


def interruption() -> str | None:
    """The signal that has asked this process to end, by its name."""
    return _asked


def raise_if_any(asked_R: Iterable[str | None]) -> None:
    """Raises `InterruptionError` where a rank has been asked: all that ask at once end together."""
    for asked in asked_R:
        if asked is not None:
            raise InterruptionError(asked)


def awaited(future: Future[T]) -> T:
    """Its result, where the models are as the last iteration left them.

    A signal ends the wait of a lone rank; several end together, when all have their results.
    """
    while num_ranks() == 1 and not future.done():
        try:
            return future.result(POLL_S)
        except TimeoutError:  # its own, too
            raise_if_any([interruption()])
    return future.result()


def _note(number: int, _: FrameType | None) -> None:
    global _asked
    if _asked is not None and number == signal.SIGINT:
        raise KeyboardInterrupt
    _asked = _asked or signal.Signals(number).name
