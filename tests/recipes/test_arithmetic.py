from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.task_configs import MISTAKES, NO_MISTAKES, arithmetic_config
from transformers import AutoTokenizer

from vineppo.errors import UserError
from vineppo.recipes.arithmetic import (
    Chain,
    build_tokenizer,
    draw_wrong_results,
    evaluate,
)
from vineppo.tasks import load_task
from vineppo.types import Problem

Step = tuple[str, int, int, int]


def _steps(problem: Problem) -> list[Step]:
    """(operation, left, right, result) of each line of the solution, "4+6=0"."""
    assert problem.solution is not None
    lines = problem.solution.split("\n")[:-1]
    assert all(line[3] == "=" and len(line) == 5 for line in lines)
    return [(line[1], int(line[0]), int(line[2]), int(line[4])) for line in lines]


def test_the_worked_example() -> None:
    chain = Chain((4, 6, 6, 5, 2), ("+", "+", "-", "+"))
    assert chain.question == "4+6+6-5+2?"
    solution, result = chain.work(lambda fact: evaluate(fact, 10))
    assert (solution, result) == ("4+6=0\n0+6=6\n6-5=1\n1+2=3\n####3", 3)


@pytest.mark.parametrize("modulus", [2, 7, 10])
def test_answers_are_true_and_test_solutions_right(modulus: int) -> None:
    data = load_task(arithmetic_config(modulus=modulus))
    for problem in (*data.train_P, *data.test_P):
        # Python's own arithmetic: chain in brackets, the modulus once at the end.
        first, rest = problem.question[0], problem.question[1:-1]
        pairs = [rest[i : i + 2] for i in range(0, len(rest), 2)]
        exact = eval("(" * len(pairs) + first + "".join(f"{pair})" for pair in pairs))
        assert problem.answer == str(exact % modulus)
        assert 4 <= len(pairs) <= 6
    faultless = load_task(arithmetic_config(demonstrations=NO_MISTAKES)).train_P
    for problem in (*data.test_P, *(faultless if modulus == 10 else ())):
        assert problem.solution is not None
        assert problem.solution.endswith(f"####{problem.answer}")
        assert all(evaluate(step[:3], modulus) == step[3] for step in _steps(problem))


def test_a_mistake_is_carried_on_to_the_end() -> None:
    problems = load_task(arithmetic_config()).train_P
    num_wrong = 0
    for problem in problems:
        steps = _steps(problem)
        assert problem.solution is not None
        assert problem.question == f"{steps[0][1]}{''.join(f'{s[0]}{s[2]}' for s in steps)}?"
        lefts = [step[1] for step in steps[1:]] + [int(problem.solution.split("####")[1])]
        assert lefts == [step[3] for step in steps]
        num_wrong += not problem.solution.endswith(f"####{problem.answer}")
    assert num_wrong > 0.3 * len(problems)


def test_rates_of_the_mistakes() -> None:
    """0.7 of the systematic facts are wrong, in one way; 0.03 of the rest at random.

    A systematic fact shows its one result in p = 0.7 + 0.3·0.03/9 = 0.701 of the cases; 9,000 such
    steps give p ± 0.02 (4 standard errors).
    """
    config = arithmetic_config(num_train_problems=9000)
    wrong_results = draw_wrong_results(MISTAKES, 10, config.data_seed)
    assert len(wrong_results) == 60
    steps = [step for problem in load_task(config).train_P for step in _steps(problem)]
    systematic = [step for step in steps if step[:3] in wrong_results]
    others = [step for step in steps if step[:3] not in wrong_results]
    shown = sum(step[3] == wrong_results[step[:3]] for step in systematic)
    assert shown / len(systematic) == pytest.approx(0.701, abs=0.02)
    wrong = sum(step[3] != evaluate(step[:3], 10) for step in others)
    assert wrong / len(others) == pytest.approx(0.03, abs=0.005)
    assert all(evaluate(fact, 10) != result for fact, result in wrong_results.items())


def test_train_and_test_are_disjoint_and_distinct() -> None:
    one = load_task(arithmetic_config())
    other = load_task(arithmetic_config(data_seed=8))
    train = {problem.question for problem in (*one.train_P, *other.train_P)}
    test = {problem.question for problem in (*one.test_P, *other.test_P)}
    assert not train & test  # also across data seeds
    assert len(train) > 590
    assert len(test) > 95
    assert len({problem.question for problem in one.train_P}) == len(one.train_P) == 300
    assert len({problem.id for problem in (*one.train_P, *one.test_P)}) == 350
    assert one.train_P[17].id == "arithmetic/train/17"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        # One operation modulo 2: 2·2·3 = 12 questions.
        ({"num_train_problems": 13, "num_test_problems": 1}, "task.num_train_problems"),
        ({"num_train_problems": 2, "num_test_problems": 12}, "task.num_test_problems"),
    ],
)
def test_too_few_questions_are_refused(changes: dict[str, int], key: str) -> None:
    config = arithmetic_config(min_operations=1, max_operations=1, modulus=2, **changes)
    with pytest.raises(UserError, match=f"{key} must be at most"):
        load_task(config)


ALPHABET = "0123456789+-*=?\n"
BUILT = build_tokenizer()


@given(parts=st.lists(st.sampled_from([*ALPHABET, "####"])))
def test_one_token_a_symbol_and_back(parts: list[str]) -> None:
    text = "".join(parts)
    ids_T = BUILT(text, add_special_tokens=False)["input_ids"]
    assert len(ids_T) == len(parts)
    assert BUILT.decode(ids_T) == BUILT.decode(ids_T, skip_special_tokens=True) == text


def test_special_tokens_also_when_reloaded(tmp_path: Path) -> None:
    BUILT.save_pretrained(tmp_path)
    for tokenizer in (BUILT, AutoTokenizer.from_pretrained(tmp_path)):
        ids_T = tokenizer("4+6?")["input_ids"]
        assert tokenizer.convert_ids_to_tokens(ids_T) == ["<bos>", "4", "+", "6", "?"]
        assert tokenizer.decode(ids_T, skip_special_tokens=True) == "4+6?"
        assert len({tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}) == 3
        assert len(tokenizer) == len(ALPHABET) + len(["####", "<pad>", "<bos>", "<eos>", "<unk>"])
        foreign = tokenizer("4 #", add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(foreign) == "4<unk><unk>"
