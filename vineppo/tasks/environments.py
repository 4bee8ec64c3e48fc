"""Tasks of several turns: an environment that answers the policy, in token ids.

A response is what the policy writes, turn by turn, with the environment's answers between:

    prompt  question  o_0 | a_1  o_1  a_2  o_2  …  a_n | n turns

A turn a_i ends with an end-of-sequence token or one of the environment's `stop_ids`; the answer o_i
is part of the response, and what the policy did not write trains nothing. A state is a prefix of
token ids here too: the environment is brought there by acting the turns of the prefix out again.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from vineppo.config.schema import EnvironmentConfig, Task
from vineppo.errors import UserError
from vineppo.plugins import find
from vineppo.seeds import prefix_digest
from vineppo.types import FinishReason, Problem, Turn


@dataclass(frozen=True)
class Observation:
    """What an environment says at the start, and in answer to a turn.

    `token_ids` stand before the policy's next turn; at the end they are left out. `state` names the
    state that they leave the environment in: two states of one problem that have equal names are
    the same. None: no other history leads there. `reward` is that of the turn that was answered.
    """

    token_ids: tuple[int, ...]
    state: str | None = None
    reward: float = 0.0
    is_done: bool = False


class Environment(ABC):
    """Plays one episode at a time, each on a shallow copy that `reset` starts.

    What it answers must follow from the problem and the turns so far, whoever asks and how often.
    `stop_ids` are tokens that end a turn, besides those that end a sequence.
    """

    Config = EnvironmentConfig
    stop_ids: Collection[int] = ()

    def __init__(self, config: Any, task: Any, tokenizer: Any) -> None:
        """Made once; `config` holds its own keys."""
        self.config, self.task, self.tokenizer = config, task, tokenizer

    @abstractmethod
    def reset(self, problem: Problem) -> Observation:
        """The start of an episode: what stands behind the problem's prompt."""

    @abstractmethod
    def step(self, action_ids: tuple[int, ...]) -> Observation:
        """The answer to a turn, whose last token is the one that ended it."""


@dataclass(frozen=True)
class TurnRules:
    """An environment and what bounds its episodes.

    `stop_ids` are all tokens that end a turn. A turn of more than `max_turn_tokens`, or a response
    that has no room for the next turn, ends the episode with the reward `truncated_reward` besides.
    """

    environment: Environment
    stop_ids: frozenset[int]
    max_turn_tokens: int
    truncated_reward: float
    num_token_ids: int

    def opening(self, problem: Problem) -> tuple[int, ...]:
        """What the environment puts behind the prompt."""
        return self.checked(copy(self.environment).reset(problem)).token_ids

    def checked(self, seen: Observation) -> Observation:
        """Raises `UserError` for tokens that the model does not have and a reward of no number."""
        for token in seen.token_ids:
            if not 0 <= token < self.num_token_ids:
                raise UserError(
                    f"task.environment: its token ids must be below {self.num_token_ids}, "
                    f"got {token}"
                )
        if not math.isfinite(seen.reward):
            raise UserError(f"task.environment: its rewards must be finite, got {seen.reward}")
        return seen


class Episode:
    """A response of several turns on its way: its tokens, whose they are, what they earned.

    It begins after `prefix_ids` of an earlier response: acting that one's turns out again must give
    the same answers. `finish_reason` is None until the end.
    """

    def __init__(
        self,
        rules: TurnRules,
        problem: Problem,
        max_tokens: int,
        prefix_ids: Sequence[int] = (),
    ) -> None:
        self._rules = rules
        self._max_tokens = max_tokens
        self._environment = copy(rules.environment)
        self.response_ids: list[int] = []
        self.turns: list[Turn] = []
        self.finish_reason: FinishReason | None = None
        self._await(rules.checked(self._environment.reset(problem)).state)
        self._replay(problem, tuple(prefix_ids))

    @property
    def room(self) -> int:
        """Tokens that the policy may write before its turn or the response is too long."""
        in_turn = self._rules.max_turn_tokens - (len(self.response_ids) - self._start)
        return min(in_turn, self._max_tokens - len(self.response_ids))

    @property
    def reward(self) -> float:
        """Σ of the turns'."""
        return math.fsum(turn.reward for turn in self.turns)

    def act(self, token_ids: Sequence[int], finish_reason: FinishReason) -> None:
        """The policy goes on with the turn; where that ends, the environment answers.

        "length": the tokens are cut off, and with them the episode.
        """
        self.response_ids += token_ids
        if finish_reason == "length":
            self._end_turn(self._rules.truncated_reward)
            self.finish_reason = "length"
            return
        seen = self._rules.checked(self._environment.step(tuple(self.response_ids[self._start :])))
        has_room = len(self.response_ids) + len(seen.token_ids) < self._max_tokens
        if not seen.is_done and has_room:
            self._end_turn(seen.reward)
            self.response_ids += seen.token_ids
            self._await(seen.state)
            return
        self.finish_reason = "stop" if seen.is_done else "length"
        self._end_turn(seen.reward + (0.0 if seen.is_done else self._rules.truncated_reward))

    def _await(self, state: str | None) -> None:
        """The policy's turn comes."""
        self._start = len(self.response_ids)
        self._state = prefix_digest(self.response_ids) if state is None else state

    def _end_turn(self, reward: float) -> None:
        self.turns.append(Turn(self._start, len(self.response_ids), self._state, reward))

    def _replay(self, problem: Problem, prefix_ids: tuple[int, ...]) -> None:
        while len(self.response_ids) < len(prefix_ids):
            left = prefix_ids[len(self.response_ids) :]
            ends = [i for i, token in enumerate(left) if token in self._rules.stop_ids]
            if not ends:  # within a turn
                self.response_ids += left
                return
            self.act(left[: ends[0] + 1], "stop")
            num = min(len(self.response_ids), len(prefix_ids))
            is_over = self.finish_reason is not None
            if is_over or tuple(self.response_ids[:num]) != prefix_ids[:num]:
                raise UserError(
                    f"task.environment: the same turns of problem {problem.id} must get the same "
                    f"answers, got another after turn {len(self.turns)}"
                )


def build_turn_rules(
    task: Task, tokenizer: Any, stop_ids: Sequence[int], num_token_ids: int
) -> TurnRules | None:
    """Of `task.environment`, null: None. `stop_ids` are the model's."""
    config = task.environment
    if config is None:
        return None
    environment = find("environment", config.kind)(config, task, tokenizer)
    return TurnRules(
        environment,
        frozenset(stop_ids) | frozenset(environment.stop_ids),
        config.max_turn_tokens,
        task.grading.truncated_reward or 0.0,
        num_token_ids,
    )
