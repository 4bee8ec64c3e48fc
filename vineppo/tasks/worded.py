"""Worded chains of + - * modulo m: most lines decide nothing, few decide everything.

    question   "4+6*3-5?"          evaluated from left to right, modulo 10
    solution   "so 4+6=0\\nwell that\\nthen 0*3=0\\nhm one\\nnow 0-5=5\\nok it\\n####4005"
    answer     "4005"              the first operand and every result

A line of an operation begins with one of `num_openers` words and is followed by `num_remarks` lines
of two free words. All are equally right: they are the free wording of real solutions, to which an
exact advantage gives 0 and an outcome gives noise. The results decide, and of these only those of
*hard facts* are in doubt: `num_hard_steps` of a problem's steps meet one of `num_hard_facts` facts,
which the demonstrations get wrong with `wrong_probability`, always in the same way. As the answer
carries all results, one that stays wrong cannot be made good by a later mistake. With
`repair_probability` the demonstrator takes a wrong result back, in the next line ("no 4+6=0").

The demonstrator is a policy whose values are known, `Demonstrator.value`.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from vineppo.config.schema import WordedTaskConfig
from vineppo.errors import UserError
from vineppo.seeds import derive_seed
from vineppo.tasks.arithmetic import OPERATIONS, Chain, Fact, distinct_chains, evaluate
from vineppo.types import Problem, Split

OPENERS = ("so", "then", "now", "next", "here", "thus", "first", "and")
REMARKS = (
    ("well", "hm", "ok", "right", "fine", "yes", "good", "see"),
    ("that", "this", "one", "it", "step", "on", "go", "still"),
)
REPAIR = "no"
WORDS = tuple(f"{word} " for word in (*OPENERS, *REMARKS[0], REPAIR)) + REMARKS[1]


def load(config: WordedTaskConfig, split: Split) -> list[Problem]:
    """Train problems with the demonstrator's solutions, or test problems with right ones.

    Raises UserError where the keys contradict each other.
    """
    if config.num_hard_steps > config.num_operations:
        raise UserError(
            f"task.num_hard_steps must be at most task.num_operations ({config.num_operations}), "
            f"got {config.num_hard_steps}"
        )
    # Of every left operand one fact is hard and one is not.
    most = config.modulus * (len(OPERATIONS) * config.modulus - 1)
    if not config.modulus <= config.num_hard_facts <= most:
        raise UserError(
            f"task.num_hard_facts must be between task.modulus ({config.modulus}) and {most}, "
            f"got {config.num_hard_facts}"
        )
    is_train = split == "train"
    count = config.num_train_problems if is_train else config.num_test_problems
    demonstrator = Demonstrator(config)
    return [
        Problem(
            f"worded/{split}/{index}",
            chain.question,
            demonstrator.answer(chain),
            demonstrator.solution(chain, is_right=not is_train),
        )
        for index, chain in enumerate(demonstrator.chains(split, count))
    ]


@dataclass(frozen=True)
class Demonstrator:
    """The policy that the demonstrations are drawn from."""

    config: WordedTaskConfig

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

    def results(self, chain: Chain) -> list[int]:
        """The first operand and the right result of every operation."""
        results = [chain.operands[0]]
        for operation, right in zip(chain.operations, chain.operands[1:], strict=True):
            results.append(evaluate((operation, results[-1], right), self.config.modulus))
        return results

    def facts(self, chain: Chain) -> tuple[Fact, ...]:
        """What the right way meets, an operation each."""
        return tuple(zip(chain.operations, self.results(chain), chain.operands[1:], strict=False))

    def answer(self, chain: Chain) -> str:
        return "".join(map(str, self.results(chain)))

    def solution(self, chain: Chain, *, is_right: bool = False, sample: int = 0) -> str:
        """A demonstration; drawn by the question and `sample` alone."""
        config = self.config
        stream = self._stream("demonstration", chain.question, sample)
        result, answer, lines = chain.operands[0], str(chain.operands[0]), []
        for operation, operand in zip(chain.operations, chain.operands[1:], strict=True):
            fact = operation, result, operand
            right = stated = evaluate(fact, config.modulus)
            is_slip = fact in self.wrong_results and stream.random() < config.wrong_probability
            if is_slip and not is_right:
                stated = self.wrong_results[fact]
            opener = stream.choice(OPENERS[: config.num_openers])
            lines.append(f"{opener} {result}{operation}{operand}={stated}")
            if stated != right and stream.random() < config.repair_probability:
                lines.append(f"{REPAIR} {result}{operation}{operand}={right}")
                stated = right
            for _ in range(config.num_remarks):
                lines.append(" ".join(map(stream.choice, REMARKS)))
            result = stated
            answer += str(result)
        return "\n".join([*lines, f"####{answer}"])

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

        V = Π p_f over the hard facts f still ahead, with p = 1 − w + w·r for the probabilities w of
        a wrong result and r of its repair; off the track 0; r times as much where the last result
        is wrong. `right_probabilities` are another policy's p.
        """
        left = self.steps_left(chain, text)
        if left is None:
            return 0.0
        facts, is_wrong = left
        config = self.config
        p = 1 - config.wrong_probability * (1 - config.repair_probability)
        skill = dict.fromkeys(self.wrong_results, p) | dict(right_probabilities or {})
        ahead = prod(skill[fact] for fact in facts if fact in self.wrong_results)
        return ahead * (config.repair_probability if is_wrong else 1.0)

    def _draw(self, stream: random.Random) -> Chain:
        """A chain whose right way meets exactly `num_hard_steps` hard facts, at places drawn."""
        config = self.config
        places = set(stream.sample(range(config.num_operations), config.num_hard_steps))
        result = stream.randrange(1, config.modulus)  # not 0, so that the answer has all its digits
        operands, operations = [result], []
        for place in range(config.num_operations):
            while True:
                fact = stream.choice(OPERATIONS), result, stream.randrange(config.modulus)
                if (fact in self.wrong_results) == (place in places):
                    break
            operations.append(fact[0])
            operands.append(fact[2])
            result = evaluate(fact, config.modulus)
        return Chain(tuple(operands), tuple(operations))

    def _stream(self, *purpose: str | int) -> random.Random:
        return random.Random(derive_seed(self.config.data_seed, "worded", *purpose))
