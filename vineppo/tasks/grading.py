"""From a response to its reward: extract the answer, compare it with the true one.

    reward = truncated_reward              if the budget cut the response off, unless null
             0                             if no answer is found
             1[answer ≡ extracted]         otherwise

or, with `reward_path`, what a user's function makes of the response unless it was cut off.

An expression copied from the question is no answer. A comparison that times out, kills its worker
or raises is graded 0 and counted, each under its own name, so that a grader in trouble shows in the
metrics. It is no verdict: the next response with that answer is compared anew. A user's function
that raises ends the run.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import TracebackType

from vineppo.config.schema import GradingConfig
from vineppo.errors import UserError
from vineppo.own_code import OwnReward
from vineppo.tasks.equivalence import compare_at_once, is_copied, is_equivalent
from vineppo.tasks.extraction import EXTRACTORS
from vineppo.tasks.worker_pool import EvaluationError, WorkerDiedError, WorkerPool
from vineppo.types import FinishReason, Problem

_logger = logging.getLogger(__name__)

# The share of the time limit that nearly all comparisons need less of.
_QUICK_SHARE = 0.1

# What makes a comparison wrong rather than the run: the counter of each failure.
_FAILURE_COUNTERS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "num_timeouts"),
    (WorkerDiedError, "num_worker_deaths"),
    (EvaluationError, "num_errors"),
)


class Grader:
    """Grades responses; slow comparisons run in worker processes, each pair of texts once.

    The reward depends on the true answer and the response alone, never on the order of the calls.
    `compare(answer, extracted)` is a module-level function. To be used from one thread, and closed.

        with Grader(config) as grader:
            rewards_G = [f.result() for f in [grader.submit(p, text, "stop") for text in texts_G]]
    """

    def __init__(
        self, config: GradingConfig, compare: Callable[[str, str], bool] = is_equivalent
    ) -> None:
        self._extract = EXTRACTORS[config.extraction]
        self._own_reward = None if config.reward_path is None else OwnReward(config.reward_path)
        function = self._own_reward or compare
        # A user's function may be costly, and is not called twice.
        quick_limit_s = None if self._own_reward else _QUICK_SHARE * config.time_limit_s
        self._pool = WorkerPool(function, config.num_workers, config.time_limit_s, quick_limit_s)
        self._is_closed = False
        # Resolved futures are shared: a memo entry costs two strings, and a hit no allocation.
        self._right, self._wrong = _resolved(1.0), _resolved(0.0)
        self._truncated = (
            None if config.truncated_reward is None else _resolved(config.truncated_reward)
        )
        # By the true answer rather than the problem's id: problems with one answer share.
        self._memo: dict[tuple[str, ...], Future[float]] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def submit(self, problem: Problem, text: str, finish_reason: FinishReason) -> Future[float]:
        """The reward of a response, at once or when a worker has compared it.

        The future may be shared with other responses and cannot be cancelled. It raises only for
        what is no verdict: RuntimeError when workers cannot be started, PoolClosedError.

        With extraction "hash" and the true answer "72": "… #### 72" gives 1.0, "… #### 71" and
        "no idea" give 0.0.
        """
        if self._is_closed:
            raise RuntimeError("the grader is closed")
        if not self.reads(finish_reason):
            assert self._truncated is not None
            self._count("num_graded")
            return self._truncated
        if self._own_reward is not None:
            return self._evaluate_once(problem.question, problem.answer, text)
        extracted = self._extract(text)
        if extracted is None:
            self._count("num_graded", "num_no_answer")
            return self._wrong
        verdict = compare_at_once(problem.answer, extracted)
        if verdict is not False and is_copied(problem.question, problem.answer, extracted):
            verdict = False
        if verdict is not None:
            self._count("num_graded")
            return self._right if verdict else self._wrong
        return self._evaluate_once(problem.answer, extracted)

    def reads(self, finish_reason: FinishReason) -> bool:
        """Whether the text decides the reward, or the truncation alone."""
        return finish_reason != "length" or self._truncated is None

    def metrics(self) -> dict[str, float]:
        """What happened since the last call; the counters start anew.

        Timeouts, worker deaths and errors count comparisons, not the responses that share one;
        `memo_hit_frac` is the share of the responses that reused an earlier response's comparison.
        """
        with self._lock:
            counts, self._counts = self._counts, Counter()
            if self._own_reward is not None:  # whole responses, which do not come again
                self._memo = {key: f for key, f in self._memo.items() if not f.done()}
        num_graded = counts["num_graded"]
        return {
            "grading/num_graded": float(num_graded),
            "grading/no_answer_frac": counts["num_no_answer"] / max(num_graded, 1),
            "grading/memo_hit_frac": counts["num_memo_hits"] / max(num_graded, 1),
            **{f"grading/{name}": float(counts[name]) for _, name in _FAILURE_COUNTERS},
        }

    def close(self) -> None:
        """End the workers; unresolved futures raise PoolClosedError."""
        self._is_closed = True
        self._pool.close()

    def __enter__(self) -> "Grader":
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _evaluate_once(self, *key: str) -> Future[float]:
        """What a worker makes of the texts, or made of them before."""
        with self._lock:
            self._counts["num_graded"] += 1
            known = self._memo.get(key)
            if known is not None:
                self._counts["num_memo_hits"] += 1
                return known
            reward: Future[float] = Future()
            reward.set_running_or_notify_cancel()
            self._memo[key] = reward
        self._pool.submit(*key).add_done_callback(partial(self._settle, key, reward))
        return reward

    def _settle(
        self, key: tuple[str, ...], reward: Future[float], evaluation: Future[float]
    ) -> None:
        """Turn a finished evaluation into the reward; runs in a thread of the pool."""
        error = evaluation.exception()
        if self._own_reward is not None and isinstance(error, EvaluationError):
            last_line = str(error).strip().splitlines()[-1]
            error = UserError(f"{self._own_reward.path}: reward raised {last_line}")
        counter = next((name for kind, name in _FAILURE_COUNTERS if isinstance(error, kind)), None)
        if error is not None and counter is None:
            reward.set_exception(error)
            return
        value = float(evaluation.result()) if error is None else 0.0
        with self._lock:
            if counter is None:
                self._memo[key] = {1.0: self._right, 0.0: self._wrong}.get(value, reward)
            else:
                self._memo.pop(key, None)
                self._counts[counter] += 1
        if error is not None:
            _logger.debug("grading %r: %s: %s", key, type(error).__name__, error)
        reward.set_result(value)

    def _count(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self._counts[name] += 1


def _resolved(reward: float) -> Future[float]:
    future: Future[float] = Future()
    future.set_result(reward)
    return future
