"""A user's reward function, which a config names as "FILE.py", "FILE.py:NAME" or "module:NAME".

    def reward(question, answer, response): …                  returns a number
    def reward(question, answer, response, full_response): …   also gets the special tokens

Functions written for other libraries are called as there (`recipes/reward_forms.py`).
"""

import asyncio
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.plugins import find, load_module
from vineppo.types import Problem

OURS, FULL = ("question", "answer", "response"), "full_response"
# The function of a file if the config names none: ours, verl's, OpenRLHF's.
USUAL_NAMES = ("reward", "compute_score", "reward_func")
LARGEST_FLOAT32 = 3.4e38


class RewardForm:
    """A function and the way to call it, here ours; `where` names it, as in "mine.py: reward"."""

    def __init__(self, function: Callable[..., Any], where: str) -> None:
        self.function, self.where = function, where
        self.parameters = inspect.signature(function).parameters
        self.reads_special_tokens = FULL in self.parameters

    def arguments(self, problem: Problem, response: str, _: Sequence[int], full: str) -> Any:
        """The arguments of `call`, here without token ids; equal ones share a call."""
        needed = problem.question, problem.answer, response
        return (*needed, full) if self.reads_special_tokens else needed

    def call(self, *needed: Any) -> Any:
        return self.function(*needed[:3], **dict(zip((FULL,), needed[3:], strict=False)))


@dataclass(frozen=True)
class UserReward:
    """The reward function of the file at `path`; `name` None: the usual one that it has.

    It can be pickled, and is loaded at its first call in a process. A reward that is not finite
    in the float32 of the losses, or no number, is a `ValueError`.
    """

    path: str
    name: str | None

    @classmethod
    def of(cls, reward_path: str) -> "UserReward":
        file, _, name = reward_path.rpartition(":")
        return cls(file, name) if file and name.isidentifier() else cls(reward_path, None)

    def load(self) -> RewardForm:
        """Raises `UserError` for a file that cannot be run, without the function, or of no form."""
        return _load(self.path, self.name, Path.cwd())

    def __call__(self, *needed: Any) -> float:
        found = finished(self.load().call(*needed))
        # float() would read a text, too.
        reward = math.nan if isinstance(found, str | bytes | bytearray | None) else float(found)
        if not abs(reward) <= LARGEST_FLOAT32:
            raise ValueError(f"reward must be a finite number, got {found!r}")
        return reward


def finished(value: Any) -> Any:
    return asyncio.run(value) if inspect.iscoroutine(value) else value


@cache
def _load(path: str, name: str | None, _: Path) -> RewardForm:
    """Once a process and working directory, which a relative path starts from."""
    module, names = load_module(path), USUAL_NAMES if name is None else (name,)
    found = [each for each in names if callable(getattr(module, each, None))]
    if not found:
        raise UserError(f"{path}: no function {' or '.join(names)}; FILE.py:NAME names another")
    if len(found) > 1 and found[0] != "reward":
        raise UserError(f"{path}: {' and '.join(found)} are both there; FILE.py:NAME names one")
    function, where = getattr(module, found[0]), f"{path}: {found[0]}"
    form: RewardForm = find("reward_form", "any").of(function, where)
    return form
