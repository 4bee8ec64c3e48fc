"""Chains of + - * modulo m: a reasoning task that is generated, with mistakes to unlearn.

    question   "4+6+6-5+2?"                             evaluated from left to right, modulo 10
    solution   "4+6=0\\n0+6=6\\n6-5=1\\n1+2=3\\n####3"      one line an operation
    answer     "3"

The train problems' solutions are demonstrations with mistakes, so that supervised fine-tuning on
them leaves something for reinforcement learning to do. Random mistakes alone would not: greedy
sampling votes them away. The systematic ones have to be unlearned.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from vineppo.config.require import require_at_most
from vineppo.config.schema import AnyConfig, Task
from vineppo.config.schema.scalars import Count, Seed, Share
from vineppo.errors import UserError
from vineppo.types import Problem, Split, derive_seed

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Fact = tuple[str, int, int]  # ("+", 4, 6)
Step = Callable[[Fact], int]  # the result that a worked solution gives to a fact

OPERATIONS = ("+", "-", "*")
# One question in this many is a test question, by a hash that depends on nothing but the question.
_TEST_ONE_IN = 10


@dataclass(frozen=True)
class Chain:
    """`Chain((4, 6, 6), ("+", "-"))` asks "4+6-6?"."""

    operands: tuple[int, ...]
    operations: tuple[str, ...]

    @classmethod
    def of_question(cls, question: str) -> "Chain":
        """The chain that asks it, of operands of one digit."""
        return cls(tuple(map(int, question[:-1:2])), tuple(question[1:-1:2]))

    @property
    def question(self) -> str:
        first, *others = self.operands
        steps = zip(self.operations, others, strict=True)
        return f"{first}{''.join(f'{operation}{operand}' for operation, operand in steps)}?"

    def work(self, step: Step) -> tuple[str, int]:
        """The worked solution and its result when `step` gives the result of each operation.

        With right steps modulo 10, `Chain((4, 6, 6), ("+", "-"))` gives "4+6=0\\n0-6=4\\n####4", 4;
        a wrong step is carried on from.
        """
        result = self.operands[0]
        lines = []
        for operation, operand in zip(self.operations, self.operands[1:], strict=True):
            next_result = step((operation, result, operand))
            lines.append(f"{result}{operation}{operand}={next_result}")
            result = next_result
        return "\n".join([*lines, f"####{result}"]), result


def evaluate(fact: Fact, modulus: int) -> int:
    """The right result: `evaluate(("-", 3, 5), 10) == 8`."""
    operation, left, right = fact
    exact = {"+": left + right, "-": left - right, "*": left * right}[operation]
    return exact % modulus


def is_test_question(question: str) -> bool:
    """The split: a fixed tenth of all questions, the same for every config and data seed."""
    return derive_seed(0, "arithmetic split", question) % _TEST_ONE_IN == 0


@dataclass(frozen=True, kw_only=True)
class Demonstrations:
    """Mistakes in the demonstrations (see `vineppo/assets/README.md`)."""

    # The share of the facts (operation, a, b) with a fixed wrong result, how often such a fact is
    # demonstrated wrongly, and how often any other step is, at random.
    systematic_fraction: Share = 0.2
    systematic_probability: Share = 0.7
    random_probability: Share = 0.03


@dataclass(frozen=True, kw_only=True)
class ArithmeticTask(Task):
    """Train problems with faulty demonstrations, test problems with right solutions.

    The first problems of a set are the same however many are asked for.
    """

    num_train_problems: Count = 64_000
    num_test_problems: Count = 256
    min_operations: Count
    max_operations: Count
    modulus: Annotated[int, Field(ge=2, le=10)] = 10
    data_seed: Seed = 0
    demonstrations: Demonstrations = Demonstrations()

    def load(self, split: Split) -> list[Problem]:
        """Raises `UserError` for fewer distinct questions than asked for."""
        count, wrong_results = self.num_test_problems, None
        if split == "train":
            count = self.num_train_problems
            wrong_results = draw_wrong_results(self.demonstrations, self.modulus, self.data_seed)
        chains = distinct_chains(
            partial(_draw_chain, self),
            random.Random(derive_seed(self.data_seed, "arithmetic", split)),
            split,
            count,
            "raise task.max_operations or task.modulus",
        )
        return [
            _problem(self, chain, f"arithmetic/{split}/{index}", wrong_results)
            for index, chain in enumerate(chains)
        ]

    def build_tokenizer(self) -> "PreTrainedTokenizerFast":
        return build_tokenizer()

    def check(self, key: str, config: AnyConfig) -> None:
        super().check(key, config)
        least, most = self.min_operations, self.max_operations
        require_at_most(f"{key}.min_operations", least, f"{key}.max_operations", most)


def draw_wrong_results(
    demonstrations: Demonstrations, modulus: int, data_seed: int
) -> Mapping[Fact, int]:
    """The facts that are systematically demonstrated wrongly, each with its one wrong result.

    `systematic_fraction=0.2` of the 3·10² facts modulo 10 are 60.
    """
    stream = random.Random(derive_seed(data_seed, "arithmetic", "wrong results"))
    facts = [(op, a, b) for op in OPERATIONS for a in range(modulus) for b in range(modulus)]
    num_wrong = round(demonstrations.systematic_fraction * len(facts))
    return {fact: _wrong(fact, modulus, stream) for fact in stream.sample(facts, num_wrong)}


def _problem(
    config: ArithmeticTask,
    chain: Chain,
    problem_id: str,
    wrong_results: Mapping[Fact, int] | None,
) -> Problem:
    solution, result = chain.work(lambda fact: evaluate(fact, config.modulus))
    if wrong_results is not None:
        # Seeded by the question, so that the mistakes do not depend on the other problems.
        seed = derive_seed(config.data_seed, "arithmetic", "demonstration", chain.question)
        solution, _ = chain.work(_faulty_step(config, wrong_results, random.Random(seed)))
    return Problem(problem_id, chain.question, str(result), solution)


def _faulty_step(
    config: ArithmeticTask, wrong_results: Mapping[Fact, int], stream: random.Random
) -> Step:
    demonstrations = config.demonstrations

    def step(fact: Fact) -> int:
        if fact in wrong_results and stream.random() < demonstrations.systematic_probability:
            return wrong_results[fact]
        if stream.random() < demonstrations.random_probability:
            return _wrong(fact, config.modulus, stream)
        return evaluate(fact, config.modulus)

    return step


def _wrong(fact: Fact, modulus: int, stream: random.Random) -> int:
    """Uniform over the results that are not right."""
    return (evaluate(fact, modulus) + stream.randrange(1, modulus)) % modulus


def distinct_chains(
    draw: Callable[[random.Random], Chain],
    stream: random.Random,
    split: Split,
    count: int,
    remedy: str,
) -> Iterator[Chain]:
    """The first `count` distinct chains of a split that `draw` makes of `stream`.

    Raises UserError with the `remedy` where there are fewer.
    """
    share = 1 / _TEST_ONE_IN if split == "test" else 1 - 1 / _TEST_ONE_IN
    seen: set[str] = set()
    # Even to find all n questions of a space takes about n·ln n draws: 40 for each is beyond doubt.
    for _ in range(10_000 + ceil(40 * count / share)):
        if len(seen) == count:
            return
        chain = draw(stream)
        question = chain.question
        if question not in seen and is_test_question(question) == (split == "test"):
            seen.add(question)
            yield chain
    if len(seen) < count:
        raise UserError(
            f"task.num_{split}_problems must be at most the number of distinct questions, got "
            f"{count} and found {len(seen)}; lower it, or {remedy}"
        )


def _draw_chain(config: ArithmeticTask, stream: random.Random) -> Chain:
    num_operations = stream.randint(config.min_operations, config.max_operations)
    operands = tuple(stream.randrange(config.modulus) for _ in range(num_operations + 1))
    operations = tuple(stream.choice(OPERATIONS) for _ in range(num_operations))
    return Chain(operands, operations)


_SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
_TOKENS = (*"0123456789+-*=?\n", "####")


def build_tokenizer(words: Sequence[str] = ()) -> "PreTrainedTokenizerFast":
    """One token a character: the tasks' 16, "####", four special ones; then a task's `words`.

    A word takes the space behind it along. A text begins with <bos>, and nothing is put behind it.
    Decoding gives back the very text; a foreign character becomes <unk>.

    `tokenizer("4+6?")["input_ids"]` has the 5 tokens <bos> 4 + 6 ?.
    """
    # A second's import, which a run of another model's tokenizer does not need.
    from tokenizers import Regex, Tokenizer, decoders
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split as SplitBy
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokens = (*_SPECIAL_TOKENS, *_TOKENS, *words)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = SplitBy(
        Regex(r"####|[a-z]+ ?|[\s\S]" if words else r"####|[\s\S]"), behavior="isolated"
    )
    backend.decoder = decoders.Fuse()
    backend.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", vocabulary["<bos>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )
