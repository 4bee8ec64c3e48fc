"""Reward functions as TRL, verl and OpenRLHF have them written, each called as there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.task_configs import GRADING

from vineppo.errors import UserError
from vineppo.tasks.grading import Grader
from vineppo.types import Problem
from vineppo.user_reward import UserReward

BARE = Problem("sums/train/3", "1+1?", "2")
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
ROW = Problem(
    "jsonl/train/3",
    "1+1?",
    "2",
    row={
        "prompt": "1+1?",
        "ground_truth": "2",
        "solution": "two",
        "data_source": "openai/gsm8k",
        "reward_model": {"style": "rule", "ground_truth": ["2", "two"]},
        "extra_info": {"index": 7},
    },
)


@pytest.fixture
def reward(tmp_path: Path) -> Any:
    """The reward of "2\\n" of the tokens 5 and 6, by the code's function."""
    counter = iter(range(100))

    def of(code: str, problem: Problem = BARE, name: str | None = None) -> float:
        file = tmp_path / f"mine{next(counter)}.py"
        file.write_text(code)
        user = UserReward.of(str(file) if name is None else f"{file}:{name}")
        return user(*user.load().arguments(problem, "2\n", (5, 6), "2\n<eos>"))

    return of


TRL = """
def reward_func(completions, **kwargs):
    return [float(len(completion)) for completion in completions]

def by_tokens(completion_ids, **kwargs):
    return [10.0 * sum(ids) for ids in completion_ids]

def by_format(completions, **kwargs):
    return [1.0 if text[0]["content"].endswith("\\n") else 0.0 for text in completions]

def by_reference(completions, ground_truth, **kwargs):
    return [1.0 if c.strip() == g else 0.0 for c, g in zip(completions, ground_truth)]

def by_column(prompts, completions, completion_ids, solution):
    assert prompts == ["1+1?"] and completions == ["2\\n"] and completion_ids == [[5, 6]]
    return [0.25 if s == "two" else 0.0 for s in solution]

def by_all(completions, **kwargs):
    return [len(kwargs)]
"""


def test_trl(reward):
    assert reward(TRL) == 2.0
    assert reward(TRL, name="by_tokens") == 110.0
    assert reward(TRL, name="by_reference") == 1.0
    assert reward(TRL, ROW, "by_reference") == 1.0
    assert reward(TRL, ROW, "by_column") == 0.25
    # Besides completions: prompts, token ids, answer and the row's columns but the prompt.
    assert reward(TRL, ROW, "by_all") == 2 + 1 + 5
    assert reward(TRL, BARE, "by_all") == 2 + 2
    # Completions are messages where the data's prompts are.
    assert reward(TRL, Problem("a", "1+1?", "2", row={"prompt": CHAT}), "by_format") == 1.0
    with pytest.raises(TypeError):
        reward(TRL, ROW, "by_format")


VERL = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    seen = f"{data_source} {solution_str.strip()} {ground_truth} {sorted(extra_info.items())}"
    return {"score": float(len(seen)), "acc": seen}

def by_truth(solution_str, ground_truth, method="strict"):
    return solution_str.strip() in ground_truth and method == "strict"

async def later(data_source, solution_str, ground_truth, extra_info, **kwargs):
    return {"score": 0.5}
"""


def test_verl(reward):
    assert reward(VERL, ROW) == len("openai/gsm8k 2 ['2', 'two'] [('index', 7)]")
    assert reward(VERL, BARE) == len("sums 2 2 []")
    assert reward(VERL, ROW, "by_truth") == 1.0
    assert reward(VERL, name="later") == 0.5


OPENRLHF = """
import torch

def reward_func(queries, prompts, labels, **kwargs):
    rewards = []
    for query, prompt, label in zip(queries, prompts, labels):
        rewards.append(1.0 if query[len(prompt):].strip() == label else -1.0)
    rewards = torch.tensor(rewards)
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"accuracy": rewards.mean()}}
"""


def test_openrlhf(reward):
    assert reward(OPENRLHF, ROW) == 1.0
    assert reward(OPENRLHF, Problem("a", "1+1?", "3")) == -1.0


FULL = "question, answer, response, full_response"


@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [
        ("def reward(q, a, r): return 1 if r.strip() == a else 0", None, 1),
        ("def score(question, answer, response, weight=3): return weight", "score", 3),
        (f"def reward({FULL}): return len(full_response) - len(response)", None, 5),
        (f"def f({FULL}='', more=1): return len(full_response)", "f", 7),
        # One called reward comes before helpers.
        ("def compute_score(x): pass\ndef reward(question, answer, response): return 4", None, 4),
    ],
)
def test_ours(reward, code, name, expected):
    assert reward(code, name=name) == expected


FORMS = "must have the parameters of one form"


@pytest.mark.parametrize(
    ("code", "name", "line"),
    [
        ("def scored(completions): pass", None,
         "no function reward or compute_score or reward_func; "),
        ("def a(completions): pass", "b", "no function b"),
        ("def reward_func(prompts, **kwargs): pass", None, f"reward_func {FORMS}"),
        ("def reward_func(completions, solution_str): pass", None, f"reward_func {FORMS}"),
        ("def reward(response): pass", None, f"reward {FORMS}"),
        ("def f(response, answer, question): pass", "f", f"f {FORMS}"),
        ("def f(solution_str, tokenizer): pass", "f", "f must ask for no more than verl gives .*"),
        ("def compute_score(solution_str): pass\ndef reward_func(queries): pass", None,
         "compute_score and reward_func are both there; FILE.py:NAME names one"),
    ],
)  # fmt: skip
def test_what_has_no_form_is_refused_in_one_line(code, name, line, reward):
    with pytest.raises(UserError, match=rf"mine0\.py: {line}"):
        reward(code, name=name)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("def reward_func(completions, solution): pass", "asks for solution, got answer, ground_t"),
        ("def reward_func(completions): return [1.0, 2.0]", "one reward for one response, got 2"),
        ("def reward_func(completions): return [None]", "must be a finite number, got None"),
        ("def compute_score(solution_str): return float('nan')", "a finite number, got nan"),
    ],
)
def test_a_reward_that_is_none_is_an_error(code, line, reward):
    with pytest.raises(ValueError, match=line):
        reward(code)


def test_the_grader_calls_them(tmp_path):
    """In its workers, with the response's tokens; other tokens of one text are another call."""
    file = tmp_path / "mine.py"
    file.write_text(TRL)
    with Grader(replace(GRADING, reward_path=f"{file}:by_tokens")) as grader:
        futures = [grader.submit(BARE, "2", "stop", ids) for ids in ((5, 6), (7,), (5, 6))]
        assert [future.result() for future in futures] == [110.0, 70.0, 110.0]
        assert grader.metrics()["grading/memo_hit_frac"] == pytest.approx(1 / 3)
    other = tmp_path / "other.py"
    other.write_text("def f(completions): return 1 / 0")
    with (
        Grader(replace(GRADING, reward_path=f"{other}:f")) as grader,
        pytest.raises(UserError, match=r"other\.py: f raised ZeroDivisionError"),
    ):
        grader.submit(BARE, "2", "stop").result()
