"""Tasks of several turns: an environment that answers the policy, in token ids.

    prompt  question  o_0 | a_1  o_1  a_2  o_2  …  a_n

A turn a_i ends with an end-of-sequence token or one of the environment's `stop_ids`. The answer o_i
is part of the response, but trains nothing. To return to a state, a copy acts out its turns again.
"""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema import EnvironmentConfig, Task
from vineppo.engine import EngineModel
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


class Environment:
    """Plays an episode on each shallow copy; answers follow from the problem and turns alone."""

    Config = EnvironmentConfig
    stop_ids: Collection[int] = ()  # they end a turn, as the model's end of a sequence does

    def __init__(self, config: Any, task: Any, tokenizer: Any, model: EngineModel) -> None:
        self.config, self.task, self.tokenizer, self.model = config, task, tokenizer, model

    def reset(self, problem: Problem) -> Observation:
        """The start of an episode: what stands behind the problem's prompt."""
        raise NotImplementedError

    def step(self, action_ids: Ids) -> Observation:
        """The answer to a turn. The last token of the turn is the one that ended it."""
        raise NotImplementedError


def build_environment(task: Task, tokenizer: Any, model: EngineModel) -> Environment | None:
    keys = task.environment
    return None if keys is None else find("environment", keys.kind)(keys, task, tokenizer, model)


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
        self.turns: list[Turn] = []
        self.finish_reason: FinishReason | None = None
        seen = self._checked(self._environment.reset(problem))
        self.opening_ids, self._state, self._start = seen.token_ids, seen.state, 0
        self.stop_ids = tuple(environment.stop_ids)
        ends = {*self.stop_ids, *environment.model.stop_ids}
        while left := prefix_ids[len(self.response_ids) :]:
            end = next((i for i, token in enumerate(left, 1) if token in ends), None)
            if end is None:  # within a turn
                self.response_ids += left
                return
            self.act(left[:end], "stop")
            again = tuple(self.response_ids[: len(prefix_ids)])
            require(
                self.finish_reason is None and again == prefix_ids[: len(again)],
                f"task.environment: the same turns of problem {problem.id} must get the same "
                f"answers, got another after turn {len(self.turns)}",
            )

    @property
    def room(self) -> int:
        """Tokens that the policy may write before its turn or the response is too long."""
        turn_end: int = self._start + self._environment.config.max_turn_tokens
        return min(turn_end, self._max_tokens) - len(self.response_ids)

    def act(self, token_ids: Sequence[int], reason: FinishReason) -> None:
        """The policy writes on; if that ends its turn ("stop"), the environment answers."""
        self.response_ids += token_ids
        start, end, seen = self._start, len(self.response_ids), Observation(())
        is_cut = reason == "length"
        if not is_cut:
            seen = self._checked(self._environment.step(tuple(self.response_ids[start:])))
            is_cut = not seen.is_done and end + len(seen.token_ids) >= self._max_tokens
        missed = is_cut * (self._environment.task.grading.truncated_reward or 0.0)
        state = prefix_digest(self.response_ids[:start]) if self._state is None else self._state
        self.turns.append(Turn(start, end, state, seen.reward + missed))
        self.reward = fsum(turn.reward for turn in self.turns)
        if is_cut or seen.is_done:
            self.finish_reason = "length" if is_cut else "stop"
        else:
            self.response_ids += seen.token_ids
            self._start, self._state = len(self.response_ids), seen.state

    def _checked(self, seen: Observation) -> Observation:
        bound, at = self._environment.model.num_token_ids, "task.environment"
        wrong = [token for token in seen.token_ids if not 0 <= token < bound]
        require(not wrong, f"{at}: token ids must be below {bound}, got {wrong}")
        require(isfinite(seen.reward), f"{at}: rewards must be finite, got {seen.reward}")
        return seen
