"""Countdown: make a target of given numbers by + - * / and brackets, each number at most once.

The problems are generated. The checker parses an answer into a syntax tree and computes it in exact
fractions. Nothing is executed, and any expression that makes the target is right.
"""

import ast
import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Annotated

from pydantic import Field

from vineppo.config.require import require
from vineppo.config.schema import Task
from vineppo.config.schema.scalars import Count, Seed
from vineppo.tasks.answers import extract_answer
from vineppo.types import Problem, Split

OPERATIONS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
WRITTEN = {r"\times": "*", r"\cdot": "*", r"\div": "/", "×": "*", "÷": "/", "−": "-", "\\": ""}
# Of so few characters that neither the parser nor a number can grow large.
EXPRESSION = re.compile(r"[0-9+\-*/() ]{1,200}")


@dataclass(frozen=True, kw_only=True)
class CountdownTask(Task):
    """Questions with an expression that solves them as answer; the test set is apart.

    "Using the numbers 3, 50, 2 and 25, make 119. …" may have the answer "(50-3)*2+25".
    """

    num_train_problems: Count = 10_000
    num_test_problems: Count = 256
    num_numbers: Annotated[int, Field(ge=2, le=6)] = 4
    max_number: Annotated[int, Field(ge=10, le=1000)] = 99
    max_target: Annotated[int, Field(ge=10, le=10_000)] = 999
    data_seed: Seed = 0

    def load(self, split: Split) -> list[Problem]:
        num_test = self.num_test_problems
        count = num_test + self.num_train_problems
        solutions: dict[str, str] = {}
        for question, solution in islice(self._solved(), 20 * count):
            solutions.setdefault(question, solution)
            if len(solutions) == count:
                break
        few = (
            f"task.num_train_problems: there are too few different problems, got {count} with test"
        )
        require(len(solutions) == count, few)
        pairs = list(solutions.items())
        chosen = pairs[:num_test] if split == "test" else pairs[num_test:]
        return [Problem(f"countdown/{split}/{i}", *pair) for i, pair in enumerate(chosen)]

    def _solved(self) -> Iterator[tuple[str, str]]:
        """Questions, each with an expression of all its numbers; the parts of it are positive."""
        stream = random.Random(self.data_seed)
        while True:
            numbers = sorted(stream.randint(1, self.max_number) for _ in range(self.num_numbers))
            parts = [(number, str(number)) for number in numbers]
            while len(parts) > 1:
                (x, left), (y, right) = (parts.pop(stream.randrange(len(parts))) for _ in "xy")
                values = {"+": x + y, "*": x * y, "-": x - y, "/": x // y}
                sign = stream.choice("+*" + "-" * (x > y) + "/" * (y > 1 and x % y == 0))
                parts.append((values[sign], f"({left}{sign}{right})"))
            target, solution = parts[0]
            if 10 <= target <= self.max_target and target not in numbers:
                yield asked(numbers, target), solution[1:-1]


def asked(numbers: list[int], target: int) -> str:
    given = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    rules = "Use +, -, *, / and brackets, and each number at most once."
    return f"Using the numbers {given}, make {target}. {rules}"


def reward(question: str, answer: str, response: str) -> float:  # noqa: ARG001
    """1 if the expression behind the last "Answer:" makes what `answer` does, of its numbers.

    `reward("…", "(50-3)*2+25", "Answer: 25+94")` is 0, for 94 is none of the numbers.
    """
    sides = (extract_answer(response) or "").split("=")
    try:
        values = [value_of(side) for side in sides]
    except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
        return 0.0
    is_allowed = numbers_of(sides[0]) <= numbers_of(answer)
    return float(len(sides) <= 2 and is_allowed and set(values) == {value_of(answer)})


def numbers_of(text: str) -> Counter[int]:
    return Counter(map(int, re.findall("[0-9]+", text)))


def value_of(text: str) -> Fraction:
    """The value of sums, differences, products and quotients; `ValueError` for all else."""
    for mark, plain in WRITTEN.items():
        text = text.replace(mark, plain)
    if EXPRESSION.fullmatch(text) is None:
        raise ValueError(f"must be an expression of numbers and + - * / ( ), got {text[:80]!r}")
    return computed(ast.parse(text.strip(), mode="eval").body)


def computed(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() as number):
            return Fraction(number)
        case ast.BinOp(left, sign, right) if type(sign) in OPERATIONS:
            return OPERATIONS[type(sign)](computed(left), computed(right))
    raise ValueError(f"must hold + - * / alone, got {ast.dump(node)[:80]}")
