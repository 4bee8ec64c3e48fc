"""MATH, SVAMP and OlympiadBench: rows by hand, and every row of the published files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
from support.shared_data import data_file, data_rows
from support.task_configs import gsm8k_config, math_config, olympiadbench_config, svamp_config

from vineppo.errors import UserError
from vineppo.tasks import load_split, load_task
from vineppo.tasks.published import Gsm8kTask, MathTask, PublishedTask
from vineppo.tasks.rows import Row
from vineppo.types import Problem

MATH_ROW = {"problem": "1/2?", "solution": r"It is $\boxed{\frac{1}{2}}$.", "answer": "0.5"}
SVAMP_ROW = {"Body": "He had 3 cats ", "Question": "How many pets?", "Answer": 3.0}


def _without(row: Row, field: str) -> Row:
    return {name: value for name, value in row.items() if name != field}


def test_math_row() -> None:
    problem = MathTask.problem(MATH_ROW, "file: row 1", "math/train/0")
    assert problem == Problem("math/train/0", "1/2?", "0.5", r"It is $\boxed{\frac{1}{2}}$.")
    first_release = MathTask.problem(_without(MATH_ROW, "answer"), "file: row 1", "")
    assert first_release.answer == r"\frac{1}{2}"


def test_a_math_question_that_asks_for_several_answers_has_those_of_all_boxes() -> None:
    solution = r"Hence $k = \boxed{5}$ or $k = \boxed{-3}$."
    row = {"problem": "Find $k$.\n", "solution": solution, "answer": "-3"}
    problem = MathTask.problem(row, "", "")
    assert (problem.question, problem.answer) == ("Find $k$.", "-3")  # either will do
    row["problem"] = "Find $k$. Enter all the solutions, separated by commas."
    assert MathTask.problem(row, "", "").answer == "5, -3"
    assert MathTask.problem({**row, "answer": "70,110"}, "", "").answer == "70, 110"


@pytest.mark.parametrize(
    ("read", "row", "message"),
    [
        (
            MathTask.problem,
            _without(MATH_ROW, "problem"),
            "must have the field 'problem', got ['ans",
        ),
        (
            MathTask.problem,
            {**MATH_ROW, "solution": "So\nx = 5."},
            r"solution must hold its answer in a \boxed{}, got 'So\nx = 5.'",
        ),
        (MathTask.problem, {**MATH_ROW, "solution": r"\boxed{5"}, "solution must hold its answer"),
        (
            Gsm8kTask.problem,
            {"question": "?", "answer": "6 #"},
            "answer must end with '#### <number>'",
        ),
    ],
)
def test_a_bad_row_is_one_line_that_names_it(read: Any, row: Row, message: str) -> None:
    with pytest.raises(UserError) as error:
        read(row, "test.jsonl: row 9", "id")
    assert str(error.value).startswith(f"test.jsonl: row 9: {message}")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (svamp_config(), r"task\.train_path .* task\.kind 'svamp', which"),
        (olympiadbench_config(), r"task\.train_path .* task\.kind 'olympiadbench', which"),
        (math_config(hub_path="no/such"), "task.hub_path .*give a local file as task.train_path"),
    ],
)
def test_a_set_that_cannot_be_had(config: PublishedTask, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_task(config)


@pytest.mark.parametrize(
    ("config", "rows", "split"),
    [
        (gsm8k_config, [{"question": f"{n}?", "answer": f"#### {n}"} for n in range(5)], "main"),
        (math_config, [{**MATH_ROW, "problem": f"{n}?"} for n in range(5)], "default"),
        (svamp_config, [{**SVAMP_ROW, "Question": f"{n}?"} for n in range(5)], "default"),
    ],
)
def test_the_hub_s_data_sets_and_local_files_give_the_same(
    config: Callable[..., PublishedTask],
    rows: list[Row],
    split: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`datasets.load_dataset` takes a directory of the hub's layout, subsets included."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    repository = tmp_path / "hub"
    repository.mkdir()
    lines = [json.dumps(row) + "\n" for row in rows]
    (repository / "train.jsonl").write_text("".join(lines[:3]))
    (repository / "test.jsonl").write_text("".join(lines[3:]))
    (repository / "README.md").write_text(
        f"---\nconfigs:\n- config_name: {split}\n  data_files:\n"
        "  - split: train\n    path: train.jsonl\n  - split: test\n    path: test.jsonl\n---\n"
    )
    from_hub = load_split(config(hub_path=str(repository), num_test_problems=4), "test")
    local = tmp_path / "test.jsonl"
    # All of SVAMP is its test set.
    local.write_text("".join(lines if config is svamp_config else lines[3:]))
    assert from_hub == load_split(config(test_path=str(local), num_test_problems=4), "test")
    assert len(from_hub) == (4 if config is svamp_config else 2)


@pytest.mark.parametrize(
    ("final", "expected"), [("72", "72"), (" $1,234 ", "1234"), ("-5", "-5"), ("0.5", "0.5")]
)
def test_gsm8k_row(final: str, expected: str) -> None:
    worked = f"She has 2*3=<<2*3=6>>6, $<<1+1=2>>2.\n####{final}"
    problem = Gsm8kTask.problem({"question": "?", "answer": worked}, "file: row 1", "gsm8k/train/0")
    assert problem.answer == expected
    assert problem.solution == f"She has 2*3=6, $2.\n####{final}"


def test_all_of_gsm8k() -> None:
    paths = {f"{s}_path": str(data_file(f"gsm8k/{s}.jsonl")) for s in ("train", "test")}
    data = load_task(gsm8k_config(**paths))
    assert (len(data.train_P), len(data.test_P)) == (7473, 1319)
    for problem in (*data.train_P, *data.test_P):
        float(problem.answer)
        assert "<<" not in (problem.solution or "<<")


def test_all_of_math() -> None:
    paths = {
        f"{s}_path": str(data_file(f"math_prm800k_split/{s}.jsonl")) for s in ("train", "test")
    }
    data = load_task(math_config(**paths))
    assert (len(data.train_P), len(data.test_P)) == (12_000, 500)
    questions = [problem.question for problem in (*data.train_P, *data.test_P)]
    assert len(set(questions)) > 12_450
    assert all(question == question.strip() for question in questions)
    # PRM800K's answers are those of the last boxes; ours would be found without them.
    rows = data_rows("math_prm800k_split/train.jsonl")
    for row, problem in zip(rows, data.train_P, strict=True):
        assert MathTask.problem(_without(row, "answer"), "", problem.id) == problem
