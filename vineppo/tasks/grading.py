"""From a response to its reward: extract the answer, compare it with the true one.

    reward = truncated_reward              if the budget cut the response off, unless null
             0                             if no answer is found
             1[answer ≡ extracted]         otherwise

With a pass mark (`num_matching`) the reward is 1 if the length is right and enough characters are:
with a mark of 2, "417" passes for "407". With `reward_path` a user's function rewards the response.

An expression copied from the question is no answer. A comparison that times out, kills its worker
or raises is graded 0, counted, and made anew after the iteration. A user's function that raises
ends the run.
"""

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import Any

from vineppo.config.schema import GradingConfig
from vineppo.errors import UserError
from vineppo.tasks.answers import (
    ABOUT,
    EQUALS,
    EXTRACTORS,
    NAME,
    OPERATION,
    list_items,
    literal,
    normalize,
    split,
    squeeze,
)
from vineppo.tasks.equivalence import compare_at_once, is_equivalent
from vineppo.tasks.worker_pool import EvaluationError, WorkerDiedError, WorkerPool
from vineppo.types import FinishReason, Problem
from vineppo.user_reward import UserReward

_logger = logging.getLogger(__name__)

# Most comparisons need less than the first, and nearly all less than the second.
_SHORT_LIMITS_S = (0.03, 0.3)
# What makes a comparison wrong rather than the run: the counter of each failure.
_FAILURE_COUNTERS: Mapping[type, str] = {
    TimeoutError: "num_timeouts",
    WorkerDiedError: "num_worker_deaths",
    EvaluationError: "num_errors",
}
_MARKS = re.compile(r"\$+|\\[()\[\]]")  # around a formula
_RELATION = re.compile(r"[,=<>]|\\(?:[lg]eq?|neq?|approx|in)(?![A-Za-z])|\\\\(?!.*\\end)")
_NOT_COMPARED = re.compile(r"[\s(){}\[\]*×]|\\(?:cdot|times|text)(?![A-Za-z])|[pb](?=matrix)")


class Grader(AbstractContextManager["Grader"]):
    """Grades responses; slow comparisons run in worker processes, each pair of texts once.

    The reward depends on the true answer and the response alone, never on the order of the calls.
    `compare(answer, extracted)` is a module-level function. `opening` is what the prompt begins
    every answer with. To be used from one thread, and closed.
    """

    def __init__(
        self,
        config: GradingConfig,
        compare: Callable[[str, str], bool] = is_equivalent,
        opening: str = "",
    ) -> None:
        self._config, self._opening = config, opening
        user = None if config.reward_path is None else UserReward.of(config.reward_path)
        self._user_reward = None if user is None else user.load()
        # A comparison past a short limit is done again by other workers, once no shorter one is
        # left. A user's function may be costly, and is not called twice.
        limits_s = [x for x in _SHORT_LIMITS_S if x < config.time_limit_s and user is None]
        self._pools = [
            WorkerPool(user or compare, config.num_workers, limit_s)
            for limit_s in (*limits_s, config.time_limit_s)
        ]
        self._waiting: list[list[tuple[tuple[Any, ...], Future[float]]]] = [[] for _ in self._pools]
        self._num_open = [0 for _ in self._pools]
        self._is_closed = False
        # By the true answer rather than the problem's id: problems with one answer share.
        self._memo: dict[tuple[Any, ...], Future[float]] = {}
        self._failed: set[tuple[Any, ...]] = set()
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def submit(
        self,
        problem: Problem,
        text: str,
        finish_reason: FinishReason,
        response_ids: Sequence[int] = (),
        full_text: str = "",
    ) -> Future[float]:
        """The reward of a response, at once or when a worker has compared it.

        With extraction "hash" and the true answer "72", "… #### 72" gives 1.0. A user's function
        may ask for `response_ids`, and for `full_text` with special tokens. The future may be
        shared, cannot be cancelled, and raises RuntimeError when workers cannot be started, and
        PoolClosedError.
        """
        if self._is_closed:
            raise RuntimeError("the grader is closed")
        self._count("num_graded")
        if not self.reads(finish_reason):
            return _resolved(self._config.truncated_reward or 0.0)
        text, full_text = self._opening + text, self._opening + full_text
        if self._user_reward is not None:
            needed = self._user_reward.arguments(problem, text, response_ids, full_text)
            return self._evaluate_once(*needed)
        extracted = EXTRACTORS[self._config.extraction](text)
        if extracted is None:
            self._count("num_no_answer")
            return _resolved(0.0)
        if self._config.num_matching is not None:
            num_right = sum(map(str.__eq__, problem.answer, extracted))
            has_length = len(problem.answer) == len(extracted)
            return _resolved(float(has_length and num_right >= self._config.num_matching))
        verdict = compare_at_once(problem.answer, extracted)
        if verdict is not False and is_copied(problem.question, problem.answer, extracted):
            verdict = False
        if verdict is None:
            return self._evaluate_once(problem.answer, extracted)
        return _resolved(float(verdict))

    def reads(self, finish_reason: FinishReason) -> bool:
        """True if the text decides the reward, or the truncation alone."""
        return finish_reason != "length" or self._config.truncated_reward is None

    @property
    def reads_special_tokens(self) -> bool:
        """True if the reward function asks for `full_text`."""
        return self._user_reward is not None and self._user_reward.reads_special_tokens

    def metrics(self) -> dict[str, float]:
        """Counts since the last call; a failed comparison counts once, and will be made anew."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            while self._failed:
                del self._memo[self._failed.pop()]
            if self._user_reward is not None:  # whole responses, which do not come again
                self._memo = {key: f for key, f in self._memo.items() if not f.done()}
        num_graded = counts["num_graded"]
        return {
            "grading/num_graded": float(num_graded),
            "grading/no_answer_frac": counts["num_no_answer"] / max(num_graded, 1),
            "grading/memo_hit_frac": counts["num_memo_hits"] / max(num_graded, 1),
            **{f"grading/{name}": float(counts[name]) for name in _FAILURE_COUNTERS.values()},
        }

    def close(self) -> None:
        """End the workers; unresolved futures raise PoolClosedError."""
        self._is_closed = True
        for pool in self._pools:  # the quickest first: its jobs may yet go to the others
            pool.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _evaluate_once(self, *key: Any) -> Future[float]:
        """A worker's verdict on the texts, or its earlier one."""
        with self._lock:
            if key in self._memo:
                self._counts["num_memo_hits"] += 1
                return self._memo[key]
            reward = self._memo[key] = Future()
            reward.set_running_or_notify_cancel()
            self._waiting[0].append((key, reward))
        self._start_waiting()
        return reward

    def _start_waiting(self) -> None:
        """Start what waits for a pool once the quicker pools have nothing to do."""
        for level, pool in enumerate(self._pools):
            with self._lock:
                started, self._waiting[level] = self._waiting[level], []
                self._num_open[level] += len(started)
                is_busy = self._num_open[level] > 0
            for key, reward in started:
                pool.submit(*key).add_done_callback(partial(self._settle, level, key, reward))
            if is_busy:
                return

    def _settle(
        self, level: int, key: tuple[Any, ...], reward: Future[float], evaluation: Future[float]
    ) -> None:
        """Turn a finished evaluation into the reward; runs in a thread of the pool."""
        error = evaluation.exception()
        is_again = isinstance(error, TimeoutError) and level + 1 < len(self._pools)
        with self._lock:
            self._num_open[level] -= 1
            if is_again:
                self._waiting[level + 1].append((key, reward))
        self._start_waiting()
        if is_again:
            return
        if self._user_reward is not None and isinstance(error, EvaluationError):
            error = UserError(f"{self._user_reward.where} raised {error}")
        counter = _FAILURE_COUNTERS.get(type(error))
        if error is not None and counter is None:
            reward.set_exception(error)
            return
        value = 0.0 if counter else float(evaluation.result())
        with self._lock:
            self._memo[key] = _resolved(value)
            if counter:
                self._failed.add(key)
                self._counts[counter] += 1
                _logger.debug("grading %r: %s: %s", key, type(error).__name__, error)
        reward.set_result(value)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1


@lru_cache(maxsize=16)
def _resolved(reward: float) -> Future[float]:
    """Shared, so that a memo entry costs two strings, and a hit no allocation."""
    future: Future[float] = Future()
    future.set_result(reward)
    return future


def is_copied(question: str, answer: str, extracted: str) -> bool:
    """True if an answer holds a formula of the question.

    A formula has an operation and does not stand in the true answer. The last side of an equation
    decides, or every one if the true answer is an equation.
    `is_copied("Expand $(x+1)^2$.", "x^2+2x+1", "y = 2(x + 1)^2 - (x+1)^2")` holds.
    """
    gold, text = normalize(answer), normalize(extracted)
    *names, last = split(text, EQUALS)
    if _is_worked_out(last) and all(map(NAME.fullmatch, names)):
        return False
    first = 0 if len(split(gold, EQUALS)) > 1 else -1
    sides = [
        side
        for item in list_items(text)
        for part in split(item, ABOUT)
        for side in split(part, EQUALS)[first:]
        if not _is_worked_out(side)
    ]
    truth, asked = squeeze(gold), squeeze(normalize(question))
    bare_truth, formulas = _bare(gold), _formulas(question)

    def is_held(part: str) -> bool:
        if OPERATION.search(part) and squeeze(part) in asked and squeeze(part) not in truth:
            return True
        bare, num_sides = _bare(part), len(split(part, EQUALS))
        # An equation holds one of the question with marks before it, not as the end of a chain.
        return any(
            formula not in bare_truth
            and num_sides == num_asked
            and (bare.endswith(formula) if num_sides > 1 else formula in bare)
            for formula, num_asked in formulas
        )

    return any(map(is_held, [text, *sides]))


def _is_worked_out(side: str) -> bool:
    """True if the text is a number, and no fraction that may be reduced."""
    number = literal(side.strip())
    if number is None or not number.is_fraction:
        return number is not None
    return re.findall("[0-9]+", side) == [str(abs(x)) for x in number.value.as_integer_ratio()]


@lru_cache(maxsize=256)
def _formulas(question: str) -> frozenset[tuple[str, int]]:
    """The question's formulas and sides that have an operation, each with its number of sides."""
    formulas = [normalize(formula) for formula in _MARKS.split(question)[1::2]]
    parts = [
        part.strip(" &").rstrip("+-")
        for whole in formulas
        for part in [whole, *split(whole, _RELATION)]
    ]
    return frozenset(
        (_bare(part), len(split(part, EQUALS)))
        for part in parts
        if OPERATION.search(part) and literal(part) is None
    )


def _bare(text: str) -> str:
    """The text without brackets and multiplication signs, to be searched for another."""
    return _NOT_COMPARED.sub("", squeeze(text))
