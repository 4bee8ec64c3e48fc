"""Chains and sheets of + - * modulo m: most lines decide nothing, some decide everything.

A chain continues from each result, and all must be right. A sheet's operations are separate, and
enough of them must be right (`grading.num_matching`), so that a mistake can be made good:

                chain                                         sheet
    question    "4+6*3-5?"                                    "4+6?9*3?"
    solution    "so 4+6=0\nwell that\nthen 0*3=0\nhm one\n    "so 4+6=0\nwell that\nthen 9*3=7\n
                 now 0-5=5\nok it\n####4005"                   hm one\n####07"
    answer      "4005", the first operand and every result    "07", every result

A line of an operation begins with one of `num_openers` words and is followed by `num_remarks` lines
of two free words. All are equally right: they stand for the free wording of real solutions. An
exact advantage gives them 0, and an outcome gives them noise. The results decide, and only those of
*hard facts* are in doubt. `num_hard_steps` of a problem's steps meet one of `num_hard_facts` facts.
The demonstrations get these wrong with `wrong_probability`, always in the same way. A chain's
answer carries all results, so no later mistake can make a wrong one good. With
`repair_probability` the demonstrator takes a wrong result back, in the next line ("no 4+6=0").

The demonstrator is a policy with known values, `Demonstrator.value`.
"""

import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Annotated, Any, Literal

from pydantic import Field

from vineppo.config.require import require
from vineppo.config.schema import AnyConfig, Task
from vineppo.config.schema.scalars import Count, CountOrZero, Seed, Share
from vineppo.recipes.arithmetic import (
    OPERATIONS,
    Chain,
    Fact,
    build_tokenizer,
    distinct_chains,
    evaluate,
)
from vineppo.types import Problem, Split, derive_seed

OPENERS = ("so", "then", "now", "next", "here", "thus", "first", "and")
REMARKS = (
    ("well", "hm", "ok", "right", "fine", "yes", "good", "see"),
    ("that", "this", "one", "it", "step", "on", "go", "still"),
)
REPAIR = "no"
WORDS = tuple(f"{word} " for word in (*OPENERS, *REMARKS[0], REPAIR)) + REMARKS[1]


@dataclass(frozen=True, kw_only=True)
class WordedTask(Task):
    """Train problems with the demonstrator's solutions, test problems with right ones."""

    layout: Literal["chain", "sheet"] = "chain"
    num_train_problems: Count = 64_000
    num_test_problems: Count = 256
    num_operations: Count
    num_hard_steps: CountOrZero = 2  # steps of a problem whose result is in doubt
    num_hard_facts: Count = 60  # the facts (operation, a, b) that they meet
    wrong_probability: Share = 0.5  # how often a hard fact is demonstrated wrongly
    repair_probability: Share = 0.0  # how often a wrong result is taken back in the next line
    num_openers: Annotated[int, Field(ge=1, le=8)] = 8  # words that a line may begin with
    num_remarks: CountOrZero = 2  # lines behind each operation that decide nothing
    modulus: Annotated[int, Field(ge=2, le=10)] = 10
    data_seed: Seed = 0

    def load(self, split: Split) -> list[Problem]:
        is_train = split == "train"
        count = self.num_train_problems if is_train else self.num_test_problems
        demonstrator = self.demonstrator()
        return [
            Problem(
                f"worded/{split}/{index}",
                chain.question,
                demonstrator.answer(chain),
                demonstrator.solution(chain, is_right=not is_train),
            )
            for index, chain in enumerate(demonstrator.chains(split, count))
        ]

    def demonstrator(self) -> "Demonstrator":
        """The policy that the demonstrations are drawn from."""
        return {"chain": ChainDemonstrator, "sheet": SheetDemonstrator}[self.layout](self)

    def build_tokenizer(self) -> Any:
        return build_tokenizer(WORDS)

    def check(self, key: str, config: AnyConfig) -> None:
        super().check(key, config)
        require(
            self.num_hard_steps <= self.num_operations,
            f"{key}.num_hard_steps must be at most {key}.num_operations ({self.num_operations}), "
            f"got {self.num_hard_steps}",
        )
        # Every left operand has a hard fact and another one.
        most = self.modulus * (len(OPERATIONS) * self.modulus - 1)
        require(
            self.modulus <= self.num_hard_facts <= most,
            f"{key}.num_hard_facts must be between {key}.modulus ({self.modulus}) and {most}, "
            f"got {self.num_hard_facts}",
        )
        needed = self.grading.num_matching
        if self.layout == "chain":
            require(
                needed is None, f"{key}.grading.num_matching must be null for a chain, got {needed}"
            )
            return
        require(
            bool(needed and needed <= self.num_operations),
            f"{key}.grading.num_matching must be at most {key}.num_operations "
            f"({self.num_operations}) for a sheet, got {needed}",
        )
        require(
            not self.repair_probability,
            f"{key}.repair_probability must be 0 for a sheet, got {self.repair_probability}",
        )


class Sheet(Chain):
    """Separate operations on pairs of operands: `Sheet((4, 6, 9, 3), ("+", "*"))`, "4+6?9*3?"."""

    @classmethod
    def of_question(cls, question: str) -> "Sheet":
        parts = question.removesuffix("?").split("?")
        return cls(
            tuple(int(digit) for part in parts for digit in (part[0], part[2])),
            tuple(part[1] for part in parts),
        )

    @property
    def question(self) -> str:
        pairs = zip(self.operations, self.operands[::2], self.operands[1::2], strict=True)
        return "".join(f"{left}{operation}{right}?" for operation, left, right in pairs)


@dataclass(frozen=True)
class Demonstrator:
    """The policy that the demonstrations are drawn from; one class a layout."""

    config: WordedTask

    @cached_property
    def wrong_results(self) -> dict[Fact, int]:
        """Each hard fact's one wrong result; every left operand has a hard fact."""
        stream = self._stream("hard facts")
        modulus = self.config.modulus
        facts: dict[Fact, int] = {}
        while len(facts) < self.config.num_hard_facts:
            fact = stream.choice(OPERATIONS), len(facts) % modulus, stream.randrange(modulus)
            if fact not in facts:
                right = evaluate(fact, modulus)
                facts[fact] = (right + stream.randrange(1, modulus)) % modulus
        return facts

    def chains(self, split: Split, count: int) -> Iterator[Chain]:
        """The first `count` distinct chains of a split: the same however many are asked for."""
        stream = self._stream(split)
        return distinct_chains(self._draw, stream, split, count, "raise task.num_operations")

    @abstractmethod
    def chain_of(self, question: str) -> Chain:
        """The chain, or the sheet, that asks it."""

    @abstractmethod
    def results(self, chain: Chain) -> list[int]:
        """The results that the answer is made of."""

    @abstractmethod
    def facts(self, chain: Chain) -> tuple[Fact, ...]:
        """The facts that the right way meets, one per operation."""

    @abstractmethod
    def value(
        self, chain: Chain, text: str, right_probabilities: Mapping[Fact, float] | None = None
    ) -> float:
        """The probability that the demonstrator, having begun with `text`, is right in the end.

        `right_probabilities` are another policy's p of hard facts.
        """

    @abstractmethod
    def outcomes(self, chain: Chain, texts: Sequence[str]) -> list[tuple[Fact, bool]]:
        """The facts that a response met where they counted, and whether it got them right.

        `texts` are the response up to the end of each step.
        """

    @abstractmethod
    def _draw(self, stream: random.Random) -> Chain:
        """One that meets exactly `num_hard_steps` hard facts, at places drawn."""

    def answer(self, chain: Chain) -> str:
        return "".join(map(str, self.results(chain)))

    def solution(self, chain: Chain, *, is_right: bool = False, sample: int = 0) -> str:
        """A demonstration; drawn by the question and `sample` alone."""
        config = self.config
        stream = self._stream("demonstration", chain.question, sample)
        carries = config.layout == "chain"
        result = chain.operands[0]
        answer, lines = str(result) if carries else "", []
        for operation, first, operand in self.facts(chain):
            left = result if carries else first
            fact = operation, left, operand
            right = stated = evaluate(fact, config.modulus)
            is_slip = fact in self.wrong_results and stream.random() < config.wrong_probability
            if is_slip and not is_right:
                stated = self.wrong_results[fact]
            opener = stream.choice(OPENERS[: config.num_openers])
            lines.append(f"{opener} {left}{operation}{operand}={stated}")
            if stated != right and stream.random() < config.repair_probability:
                lines.append(f"{REPAIR} {left}{operation}{operand}={right}")
                stated = right
            for _ in range(config.num_remarks):
                lines.append(" ".join(map(stream.choice, REMARKS)))
            result = stated
            answer += str(result)
        return "\n".join([*lines, f"####{answer}"])

    def _skill(self, right_probabilities: Mapping[Fact, float] | None) -> dict[Fact, float]:
        config = self.config
        p = 1 - config.wrong_probability * (1 - config.repair_probability)
        return dict.fromkeys(self.wrong_results, p) | dict(right_probabilities or {})

    def _hard_places(self, stream: random.Random) -> list[bool]:
        config = self.config
        places = set(stream.sample(range(config.num_operations), config.num_hard_steps))
        return [place in places for place in range(config.num_operations)]

    def _stream(self, *purpose: str | int) -> random.Random:
        return random.Random(derive_seed(self.config.data_seed, "worded", *purpose))


class ChainDemonstrator(Demonstrator):
    """All results must be right, each made from the last."""

    def chain_of(self, question: str) -> Chain:
        return Chain.of_question(question)

    def results(self, chain: Chain) -> list[int]:
        """The first operand and the right result of every operation."""
        results = [chain.operands[0]]
        for operation, right in zip(chain.operations, chain.operands[1:], strict=True):
            results.append(evaluate((operation, results[-1], right), self.config.modulus))
        return results

    def facts(self, chain: Chain) -> tuple[Fact, ...]:
        """The facts that the right way meets, one per operation."""
        return tuple(zip(chain.operations, self.results(chain), chain.operands[1:], strict=False))

    def steps_left(self, chain: Chain, text: str) -> tuple[tuple[Fact, ...], bool] | None:
        """The facts still ahead of a response that begins with `text`, and what it may take back.

        The second is whether the last result is wrong and has only just been stated. None off the
        track: where a result that was not taken back at once, or anything else that the answer
        needs, is not right.
        """
        results, facts = self.results(chain), self.facts(chain)
        done, is_wrong = 0, False
        for line in text.split("\n"):
            if line.startswith("####"):
                is_right = done == len(facts) and self.answer(chain).startswith(line[4:])
                return ((), False) if is_right and not is_wrong else None
            first, _, stated = line.partition(" ")
            is_repair = first == REPAIR
            if is_wrong and line and not is_repair:
                return None
            if not stated[:1].isdigit() and not is_repair:  # a remark
                continue
            if is_repair != is_wrong or done - is_repair == len(facts):
                return None
            operation, left, right = facts[done - is_repair]
            equation = f"{left}{operation}{right}="
            if equation.startswith(stated):  # the line is not written to its end
                return facts[done:], False
            done += not is_repair
            is_wrong = stated != f"{equation}{results[done]}"
            if is_wrong and (is_repair or stated[:-1] != equation):
                return None
        return facts[done:], is_wrong

    def value(
        self, chain: Chain, text: str, right_probabilities: Mapping[Fact, float] | None = None
    ) -> float:
        """The probability that the demonstrator, having begun with `text`, ends with the answer.

        V = Π p_f over the facts f still ahead, with p = 1 − w + w·r of hard ones. Here w is the
        probability of a wrong result and r that of its repair. V is 0 off the track, and r times
        as much if the last result is wrong. `right_probabilities` are another policy's p.
        """
        left = self.steps_left(chain, text)
        if left is None:
            return 0.0
        facts, is_wrong = left
        skill = self._skill(right_probabilities)
        ahead = prod(skill.get(fact, 1.0) for fact in facts)
        return ahead * (self.config.repair_probability if is_wrong else 1.0)

    def outcomes(self, chain: Chain, texts: Sequence[str]) -> list[tuple[Fact, bool]]:
        """On the track it met what it got right and, if it left the track, what it failed at."""
        facts = self.facts(chain)
        left = [self.steps_left(chain, text) for text in texts]
        on_track = [state for state in left if state is not None]
        num_right = max((len(facts) - len(ahead) - bad for ahead, bad in on_track), default=0)
        met = facts[: num_right + (None in left)]
        return [(fact, number < num_right) for number, fact in enumerate(met)]

    def _draw(self, stream: random.Random) -> Chain:
        config = self.config
        hard_places = self._hard_places(stream)
        result = stream.randrange(1, config.modulus)  # not 0, so that the answer has all its digits
        operands, operations = [result], []
        for is_hard in hard_places:
            while True:
                fact = stream.choice(OPERATIONS), result, stream.randrange(config.modulus)
                if (fact in self.wrong_results) == is_hard:
                    break
            operations.append(fact[0])
            operands.append(fact[2])
            result = evaluate(fact, config.modulus)
        return Chain(tuple(operands), tuple(operations))


class SheetDemonstrator(Demonstrator):
    """Enough results must be right, each made by itself."""

    def chain_of(self, question: str) -> Chain:
        return Sheet.of_question(question)

    def results(self, chain: Chain) -> list[int]:
        return [evaluate(fact, self.config.modulus) for fact in self.facts(chain)]

    def facts(self, chain: Chain) -> tuple[Fact, ...]:
        return tuple(zip(chain.operations, chain.operands[::2], chain.operands[1::2], strict=True))

    def stated(self, chain: Chain, text: str) -> str | None:
        """The results that a response states one after the other, in the end those of its answer.

        None where it has left the form: another operation, a second result, an answer too early.
        """
        facts, results = self.facts(chain), ""
        *ended, last = text.split("\n")
        for number, line in enumerate((*ended, last)):
            is_last = number == len(ended)
            if line.startswith("####"):
                answer = line[4:]
                is_one = is_last and len(results) == len(facts) >= len(answer)
                return answer + results[len(answer) :] if is_one else None
            stated = line.partition(" ")[2]
            if not stated[:1].isdigit():  # a remark, or a line that has only begun
                continue
            if len(results) == len(facts):
                return None
            operation, left, right = facts[len(results)]
            equation = f"{left}{operation}{right}="
            if is_last and equation.startswith(stated):
                break
            if stated[:-1] != equation or not stated[-1].isdigit():
                return None
            results += stated[-1]
        return results

    def value(
        self, chain: Chain, text: str, right_probabilities: Mapping[Fact, float] | None = None
    ) -> float:
        """P(enough right results); each one ahead is right with the probability of its fact.

        The number of right ones ahead is Poisson-binomial; off the form the value is 0.
        """
        results = self.stated(chain, text)
        if results is None:
            return 0.0
        skill = self._skill(right_probabilities)
        needed = self.config.grading.num_matching
        assert needed is not None, "checked with the task"
        num_right = sum(map(str.__eq__, self.answer(chain), results))
        probabilities_N = [1.0]  # of N right ones among those ahead
        for fact in self.facts(chain)[len(results) :]:
            p = skill.get(fact, 1.0)
            pairs = zip([0.0, *probabilities_N], [*probabilities_N, 0.0], strict=True)
            probabilities_N = [p * fewer + (1 - p) * as_many for fewer, as_many in pairs]
        return sum(probabilities_N[max(needed - num_right, 0) :])

    def outcomes(self, chain: Chain, texts: Sequence[str]) -> list[tuple[Fact, bool]]:
        stated = [found for text in texts if (found := self.stated(chain, text)) is not None]
        results = max(stated, key=len, default="")
        rows = zip(self.facts(chain), self.answer(chain), results, strict=False)
        return [(fact, right == result) for fact, right, result in rows]

    def _draw(self, stream: random.Random) -> Chain:
        modulus = self.config.modulus
        operands: list[int] = []
        operations: list[str] = []
        hard = list(self.wrong_results)
        for is_hard in self._hard_places(stream):
            while True:
                left, right = stream.randrange(modulus), stream.randrange(modulus)
                fact = stream.choice(OPERATIONS), left, right
                if is_hard:
                    fact = stream.choice(hard)
                if (fact in self.wrong_results) == is_hard:
                    break
            operations.append(fact[0])
            operands += fact[1:]
        return Sheet(tuple(operands), tuple(operations))
