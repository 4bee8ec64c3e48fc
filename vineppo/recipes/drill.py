"""The embedded environment: it sets out a chain's operations, and the policy gives each result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema import AnyConfig, EnvironmentConfig
from vineppo.recipes.arithmetic import ArithmeticTask, Chain, evaluate
from vineppo.tasks.environments import Environment, Observation
from vineppo.types import Problem


class Drill(Environment):
    """Chains of `recipes/arithmetic.py`, an operation a turn; each continues the policy's result.

    A turn is a digit and a newline. The response "0\\n0-5=5\\n" to the question "4+6-5?" has the
    turns "0\\n" and "5\\n", behind the environment's "4+6=" (in the prompt) and "0-5=". The last
    turn earns 1 if it is the chain's result. Anything else than a digit and a newline ends the
    episode with 0.

    With P(d | fact) the policy's probabilities of "d\\n", the value before operation k of a chain
    of n, at the number x, is exactly

        V_k(x) = Σ_d P(d | x ∘_k y_k) V_{k+1}(d),  V_{n+1}(x) = 1[x is the chain's result]

    so that two histories with the same number before the same operation are one state.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(EnvironmentConfig):
        def check(self, key: str, config: AnyConfig) -> None:
            super().check(key, config)
            task: Any = getattr(config, "task", None)
            require(
                isinstance(task, ArithmeticTask),
                f"task.kind must be 'arithmetic' for {key} of kind 'drill', got {task.kind!r}",
            )

    def __init__(self, *made: Any) -> None:
        super().__init__(*made)
        self._modulus: int = self.task.modulus
        self._digits = {i: d for d in range(self._modulus) for i in self._ids(str(d))}
        self._newline = self._ids("\n")
        self.stop_ids = self._newline

    def reset(self, problem: Problem) -> Observation:
        self._chain = Chain.of_question(problem.question)
        _, self._result = self._chain.work(lambda fact: evaluate(fact, self._modulus))
        self._num_done = 0
        return self._set_out(self._chain.operands[0])

    def step(self, action_ids: tuple[int, ...]) -> Observation:
        digit = self._digits.get(action_ids[0])
        if digit is None or action_ids[1:] != self._newline:
            return Observation((), is_done=True)
        self._num_done += 1
        if self._num_done == len(self._chain.operations):
            return Observation((), reward=float(digit == self._result), is_done=True)
        return self._set_out(digit)

    def _set_out(self, number: int) -> Observation:
        """The next operation, on a number."""
        place = self._num_done
        line = f"{number}{self._chain.operations[place]}{self._chain.operands[place + 1]}="
        return Observation(self._ids(line), state=f"{place} {number}")

    def _ids(self, text: str) -> tuple[int, ...]:
        ids: Sequence[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return tuple(ids)
