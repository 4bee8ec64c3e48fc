"""Tasks of several turns: an environment that answers the policy, in token ids.

    prompt  question  o_0 | a_1  o_1  a_2  o_2  …  a_n

A turn a_i ends with an end-of-sequence token or one of the environment's `stop_ids`. The answer o_i
is part of the response, but trains nothing. To return to a state, a copy acts out its turns again.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from vineppo.config.schema import EnvironmentConfig, Task
from vineppo.engine import EngineModel
from vineppo.errors import UserError
from vineppo.plugins import find
from vineppo.types import FinishReason, Problem, Turn, prefix_digest

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Observation:
    """The words of an environment at the start, and in answer to a turn that earned `reward`."""

    token_ids: Ids  # before the policy's next turn; left out at the end
    state: str | None = None  # equal names are equal states; None: no other history leads there
    reward: float = 0.0
    is_done: bool = False


class Environment(ABC):
    """Plays an episode on each shallow copy; answers follow from the problem and turns alone."""

    Config = EnvironmentConfig
    stop_ids: Collection[int] = ()  # they end a turn, as the model's end of a sequence does

    def __init__(self, config: Any, task: Any, tokenizer: Any, model: EngineModel) -> None:
        self.config, self.task, self.tokenizer, self.model = config, task, tokenizer, model

    @abstractmethod
    def reset(self, problem: Problem) -> Observation:
        """The start of an episode: what stands behind the problem's prompt."""

    @abstractmethod
    def step(self, action_ids: Ids) -> Observation:
        """The answer to a turn. The last token of the turn is the one that ended it."""


def build_environment(task: Task, tokenizer: Any, model: EngineModel) -> Environment | None:
    if (config := task.environment) is None:
        return None
    built: Environment = find("environment", config.kind)(config, task, tokenizer, model)
    return built


class Episode:
    """A response of several turns on its way; `finish_reason` is None until its end.

    It continues `prefix_ids` of an earlier response. A turn of more than `max_turn_tokens` ends it,
    and so does a lack of room for another turn: both earn the task's `truncated_reward` too.
    """

    def __init__(
        self, environment: Environment, problem: Problem, max_tokens: int, prefix_ids: Ids = ()
    ) -> None:
        self._environment, self._max_tokens = copy(environment), max_tokens
        self.response_ids: list[int] = []
        self.logprobs_T: list[float] = []  # 0 unless the policy just wrote the token
        self.turns: list[Turn] = []
        self.finish_reason: FinishReason | None = None
        seen = self._checked(self._environment.reset(problem))
        self.opening_ids = seen.token_ids
        self._await(seen.state)
        self._replay(problem, prefix_ids)

    @property
    def room(self) -> int:
        """Tokens that the policy may write before its turn or the response is too long."""
        turn_end: int = self._start + self._environment.config.max_turn_tokens
        return min(turn_end, self._max_tokens) - len(self.response_ids)

    @property
    def reward(self) -> float:
        return math.fsum(turn.reward for turn in self.turns)

    def act(
        self, token_ids: Sequence[int], reason: FinishReason, logprobs_T: Sequence[float] = ()
    ) -> None:
        """The policy writes on; if that ends its turn ("stop"), the environment answers."""
        self._write(token_ids, logprobs_T)
        is_cut, seen = reason == "length", Observation(())
        end = len(self.response_ids)
        if not is_cut:
            seen = self._checked(self._environment.step(tuple(self.response_ids[self._start :])))
            is_cut = not seen.is_done and end + len(seen.token_ids) >= self._max_tokens
        missed = is_cut * (self._environment.task.grading.truncated_reward or 0.0)
        self.turns.append(Turn(self._start, end, self._state, seen.reward + missed))
        if is_cut or seen.is_done:
            self.finish_reason = "length" if is_cut else "stop"
        else:
            self._write(seen.token_ids)
            self._await(seen.state)

    def _write(self, token_ids: Sequence[int], logprobs_T: Sequence[float] = ()) -> None:
        self.response_ids += token_ids
        self.logprobs_T += logprobs_T or [0.0] * len(token_ids)

    def _await(self, state: str | None) -> None:
        """The policy's turn comes."""
        self._start = len(self.response_ids)
        self._state = prefix_digest(self.response_ids) if state is None else state

    def _checked(self, seen: Observation) -> Observation:
        bound = self._environment.model.num_token_ids
        wrong = [token for token in seen.token_ids if not 0 <= token < bound]
        if wrong:
            raise UserError(f"task.environment: token ids must be below {bound}, got {wrong[0]}")
        if not math.isfinite(seen.reward):
            raise UserError(f"task.environment: rewards must be finite, got {seen.reward}")
        return seen

    def _replay(self, problem: Problem, prefix_ids: Ids) -> None:
        stop_ids = {*self._environment.stop_ids, *self._environment.model.stop_ids}
        while left := prefix_ids[len(self.response_ids) :]:
            end = next((i for i, token in enumerate(left) if token in stop_ids), None)
            if end is None:  # within a turn
                self._write(left)
                return
            self.act(left[: end + 1], "stop")
            again = tuple(self.response_ids[: len(prefix_ids)])
            if self.finish_reason is not None or again != prefix_ids[: len(again)]:
                raise UserError(
                    f"task.environment: the same turns of problem {problem.id} must get the same "
                    f"answers, got another after turn {len(self.turns)}"
                )
