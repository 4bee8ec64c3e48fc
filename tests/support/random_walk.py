"""A policy with values known in closed form: the one double that the tests use.

The policy walks on the digits 0 … TOP. It writes each position on a line of its own; at 0 or TOP it
writes `####` and the position, and stops. The reward is 1 where it ends at TOP. With unlimited
tokens V(x) is the gambler's ruin; with a budget it is the exact recursion of `value`.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import torch

from vineppo.engine import Completion, EngineCounts, SampleRequest
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.types import Problem

TOP = 4
UP = 0.45  # probability of a step upwards
TOKENIZER = build_tokenizer()
NEWLINE, MARK = TOKENIZER.convert_tokens_to_ids(["\n", "####"])
DIGITS = TOKENIZER.convert_tokens_to_ids([str(d) for d in range(TOP + 1)])


def prompt_ids(start: int) -> tuple[int, ...]:
    return (TOKENIZER.bos_token_id, DIGITS[start], NEWLINE)


def problem(start: int) -> Problem:
    return Problem(f"walk/{start}", f"{start}\n", str(TOP))


@cache
def value(position: int, num_tokens: int) -> float:
    """V of a walker who stands on `position` at the start of a line with `num_tokens` left.

    At an end it needs `####`, the digit and the end token to finish; else two tokens a step.
    """
    if position in (0, TOP):
        return float(position == TOP and num_tokens >= 3)
    if num_tokens < 2:
        return 0.0
    up, down = value(position + 1, num_tokens - 2), value(position - 1, num_tokens - 2)
    return UP * up + (1 - UP) * down


class RandomWalkEngine:
    """`Engine` whose samples follow the walk; one token a step, so that short ones finish first."""

    def __init__(self) -> None:
        self._running: list[tuple[list[int], SampleRequest, Callable[[Completion], None]]] = []
        self.requests: list[SampleRequest] = []
        self.counts = EngineCounts(0, 0, 0)
        self.ranks_a_replica = 1

    @property
    def num_unfinished(self) -> int:
        return len(self._running)

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        self.requests.append(request)
        self._running.append((self.sample(request), request, done))

    def step(self) -> None:
        """Every running request grows by a token; those that are complete are handed back."""
        running, self._running = self._running, []
        for tokens, request, done in running:
            if len(tokens) > 1:
                self._running.append((tokens[:-1], request, done))
                continue
            whole = self.sample(request)
            ends = whole[-1] in (TOKENIZER.eos_token_id, *request.stop_ids)
            reason = "stop" if ends else "length"
            done(Completion(tuple(whole), logprobs(whole), reason))

    def sample(self, request: SampleRequest) -> list[int]:
        return sample(request)

    def load_weights(self, named_weights: Iterable[tuple[str, torch.Tensor]]) -> None: ...

    def clear_cache(self) -> None: ...

    def sleep(self) -> None: ...

    def wake(self) -> None: ...


def logprobs(tokens: Sequence[int]) -> tuple[float, ...]:
    """Half a nat and more, by the token."""
    return tuple(-0.5 - 0.1 * (token % 3) for token in tokens)


def sample(request: SampleRequest) -> list[int]:
    """The walk from the last digit of the prefix (a prefix always ends with a newline)."""
    assert request.prefix_ids[-1] == NEWLINE, "a state must be a step boundary"
    position = DIGITS.index(request.prefix_ids[-2])
    generator = random.Random(request.seed)
    tokens: list[int] = []
    while len(tokens) < request.max_tokens:
        if position in (0, TOP):
            tokens += [MARK, DIGITS[position], TOKENIZER.eos_token_id]
            break
        position += 1 if generator.random() < UP else -1
        tokens += [DIGITS[position], NEWLINE]
    return tokens[: request.max_tokens]
