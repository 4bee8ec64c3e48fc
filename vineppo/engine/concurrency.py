"""How many requests an engine runs at once, and what becomes of them if it fails."""

import logging
import traceback

import torch

MOST_FAILURES = 5  # of 256 requests at once, 8 are left
WAVES = 16  # of requests, in the time in which all places are taken anew

logger = logging.getLogger(__name__)


class Concurrency:
    """At most `limit` requests run at once: `most`, and half as many after every failure.

    An engine that fails (out of memory, say) has lost no finished response. The requests that ran
    start over: each has its own seed, so their samples are the same. `restore` forgets failures.
    """

    def __init__(self, most: int, max_model_len: int) -> None:
        self._most = self.limit = most
        self._num_failures = 0  # since `restore`
        self._num_idle_steps = 0
        # The oldest request gets a token in every step but those of its prompt and of others'.
        self._most_idle_steps = 4 * max_model_len + 64

    def admits(self, num_running: int, in_waves: bool) -> int:
        """How many more requests an engine gets.

        In waves none waits in the engine, and none starts before a sixteenth can: a step is slower
        if requests start in it. With 31 of 32 places taken none starts, with 30 taken 2 do.
        Otherwise as many wait as run, except after a failure: with 31 of 32 places taken 33 come.
        """
        if in_waves:
            free = self.limit - num_running
            return free if free >= max(1, self.limit // WAVES) else 0
        most = 2 * self.limit if self.limit == self._most else self.limit
        return max(most - num_running, 0)

    def notice(self, num_finished: int) -> None:
        """Raises `RuntimeError` if no request has finished in more steps than one can take."""
        self._num_idle_steps = 0 if num_finished else self._num_idle_steps + 1
        if self._num_idle_steps > self._most_idle_steps:
            raise RuntimeError(f"no request has finished in {self._num_idle_steps} steps")

    def lower(self, error: Exception, num_running: int) -> None:
        """Halves the limit, says so in train.log, and frees cached memory.

        Raises `error` itself at the sixth failure, and if a single request fails alone.
        """
        self._num_failures, self._num_idle_steps = self._num_failures + 1, 0
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
