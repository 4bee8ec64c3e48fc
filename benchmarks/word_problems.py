"""Grade-school word problems with answers, so that a real model has something to reason about."""

import json
import random
from collections.abc import Callable
from pathlib import Path

NAMES = ("Ada", "Ben", "Carla", "David", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas")
THINGS = ("apples", "pencils", "stamps", "marbles", "books", "cookies", "shells", "cards")

# (question, answer) of three numbers a > b > c, a name and a thing.
Template = Callable[[int, int, int, str, str], tuple[str, int]]
# Without it small models write 200 tokens and more; with it a few words or twenty lines.
# Most of these end by themselves.
SHORT = "Answer in one short sentence."
TEMPLATES: tuple[Template, ...] = (
    lambda a, b, c, who, what: (
        f"{who} has {a} {what}. {who} gives {b} of them to a friend and then buys {c} more. "
        f"How many {what} does {who} have now?",
        a - b + c,
    ),
    lambda a, b, c, who, what: (
        f"{who} buys {b} boxes with {a} {what} each and loses {c} {what} on the way home. "
        f"How many {what} are left?",
        a * b - c,
    ),
    lambda a, b, c, who, what: (
        f"A shop sells {what} at {c} dollars each. On Monday {who} sells {a} of them and on "
        f"Tuesday {b}. How many dollars does {who} take in on both days together?",
        c * (a + b),
    ),
    lambda a, b, c, who, what: (
        f"{who} collects {b} {what} every day for {c} days and had {a} {what} before. "
        f"How many {what} does {who} have in the end?",
        a + b * c,
    ),
    lambda a, b, c, who, what: (
        f"{who} shares {a * c} {what} equally among {c} children, and then gives each child "
        f"{b} more. How many {what} does each child get?",
        a + b,
    ),
)


def word_problems(count: int, seed: int) -> list[dict[str, str]]:
    """`count` rows for a task of kind jsonl, the same for the same seed."""
    stream = random.Random(seed)
    rows = []
    for _ in range(count):
        c, b, a = sorted(stream.sample(range(2, 40), 3))
        template = stream.choice(TEMPLATES)
        question, answer = template(a, b, c, stream.choice(NAMES), stream.choice(THINGS))
        rows.append({"question": f"{question} {SHORT}", "answer": str(answer)})
    return rows


def write_word_problems(path: Path, count: int, seed: int) -> None:
    rows = word_problems(count, seed)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
