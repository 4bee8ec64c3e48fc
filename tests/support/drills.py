"""The embedded environment, and a policy of it whose values are known exactly."""

import random
from dataclasses import replace
from functools import cache

from support.random_walk import TOKENIZER, RandomWalkEngine
from support.task_configs import GRADING, arithmetic_config
from vineppo.engine import EngineModel, SampleRequest
from vineppo.recipes.arithmetic import Chain, evaluate
from vineppo.recipes.drill import Drill
from vineppo.rollouts import Prompt
from vineppo.tasks.environments import Episode
from vineppo.types import Problem

RIGHT, NEXT = 0.6, 0.3  # probabilities of the right digit and of one more; else it writes "?"
QUESTIONS = ("4+6-5?", "3*7+2-8?")
TRUNCATED_REWARD = -0.5


def ids(text: str) -> tuple[int, ...]:
    return tuple(TOKENIZER.encode(text, add_special_tokens=False))


MODEL = EngineModel("", len(TOKENIZER), (TOKENIZER.eos_token_id,))
TASK = arithmetic_config(grading=replace(GRADING, truncated_reward=TRUNCATED_REWARD))


def drill(max_turn_tokens: int = 4) -> Drill:
    config = Drill.Config(kind="drill", max_turn_tokens=max_turn_tokens)
    return Drill(config, TASK, TOKENIZER, MODEL)


def drill_problem(question: str) -> Problem:
    _, result = Chain.of_question(question).work(lambda fact: evaluate(fact, 10))
    return Problem(f"drill/{question}", question, str(result))


def drill_prompt(question: str) -> Prompt:
    problem = drill_problem(question)
    start = (TOKENIZER.bos_token_id, *ids(f"{question}\n"))
    return Prompt(problem, (*start, *Episode(drill(), problem, 64).opening_ids))


class TabularEngine(RandomWalkEngine):
    """Answers an operation by `RIGHT` and `NEXT`, whatever was before it."""

    def sample(self, request: SampleRequest) -> list[int]:
        left, operation, right, equals = TOKENIZER.decode(request.prefix_ids[-4:])
        assert equals == "=", "a state must be the start of a turn"
        digit = evaluate((operation, int(left), int(right)), 10)
        luck = random.Random(request.seed).random()
        wrong = "?" if luck >= RIGHT + NEXT else str((digit + 1) % 10)
        answer = str(digit) if luck < RIGHT else wrong
        return [*ids(f"{answer}\n")][: request.max_tokens]


@cache
def drill_value(question: str, place: int, number: int, num_tokens: int) -> float:
    """V before operation `place` on `number` with `num_tokens` left, by dynamic programming.

    A turn takes 2 tokens and the next operation 4, which leave room for one more.
    """
    chain = Chain.of_question(question)
    operations = list(zip(chain.operations, chain.operands[1:], strict=True))
    _, result = chain.work(lambda fact: evaluate(fact, 10))
    if num_tokens < 2:
        return TRUNCATED_REWARD
    operation, operand = operations[place]
    digit = evaluate((operation, number, operand), 10)
    value = 0.0
    for after, probability in ((digit, RIGHT), ((digit + 1) % 10, NEXT)):
        if place + 1 == len(operations):
            value += probability * (after == result)
        elif num_tokens - 2 - 4 < 1:
            value += probability * TRUNCATED_REWARD
        else:
            value += probability * drill_value(question, place + 1, after, num_tokens - 6)
    return value
