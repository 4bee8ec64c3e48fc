"""How many requests an engine runs at once, and what becomes of them where it fails."""

import logging
import traceback

import torch

MOST_FAILURES = 5  # of 256 requests at once, 8 are left
WAVES = 16  # of requests, in the time in which all places are taken anew

logger = logging.getLogger(__name__)


class Concurrency:
    """At most `limit` requests run at once: `most`, and half as many after every failure.

    An engine that fails (out of memory, say) has lost what it was computing, but no finished
    response. The requests that ran start over: each has a seed of its own, so that their samples
    are the same ones. Failures are bounded and counted, and `restore` forgets them.
    """

    def __init__(self, most: int, max_model_len: int) -> None:
        self._most = self.limit = most
        self._num_failures = 0  # since `restore`
        self._num_idle_steps = 0
        # The oldest request gets a token in every step but those of its prompt and of others'.
        self._most_idle_steps = 4 * max_model_len + 64

    def notice(self, num_finished: int) -> None:
        """Raises `RuntimeError` where no request has finished in more steps than one can take."""
        self._num_idle_steps = 0 if num_finished else self._num_idle_steps + 1
        if self._num_idle_steps > self._most_idle_steps:
            raise RuntimeError(f"no request has finished in {self._num_idle_steps} steps")

    def lower(self, error: Exception, num_running: int) -> None:
        """Halves the limit, says so in train.log, and lets go of cached memory.

        Raises `error` itself at the sixth failure, and where a single request fails alone.
        """
        self._num_failures += 1
        self._num_idle_steps = 0
        if self._num_failures > MOST_FAILURES or num_running <= 1 == self.limit:
            raise error
        self.limit = max(1, min(self.limit, num_running) // 2)
        reason = (str(error).strip().splitlines() or [""])[0]
        logger.warning(
            f"the engine failed ({type(error).__name__}: {reason}): {num_running} requests start "
            f"over, at most {self.limit} at once"
        )
        traceback.clear_frames(error.__traceback__)  # they hold the tensors of the step
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def restore(self) -> None:
        self.limit, self._num_failures, self._num_idle_steps = self._most, 0, 0


def wave(num_running: int, limit: int) -> int:
    """How many requests may start, of which `limit` run at once: none before a sixteenth can.

    A step in which requests start is dearer than one in which none does. With 31 of 32 places taken
    none, with 30 taken 2.
    """
    free = limit - num_running
    return free if free >= max(1, limit // WAVES) else 0
