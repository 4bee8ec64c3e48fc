"""Rows of a user's own files, also in the forms of verl, TRL and OpenRLHF, and of GSM8K's."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import Table
from pyarrow.parquet import write_table
from support.task_configs import GRADING, jsonl_config

from vineppo.config.load import evaluate_jsonnet
from vineppo.errors import UserError
from vineppo.tasks import load_split, load_task
from vineppo.types import Problem

TASKS = Path(__file__).parents[2] / "configs" / "lib" / "task.libsonnet"
WITH_REWARD = replace(GRADING, reward_path="mine.py")
GOOD = {"question": "1+1?", "answer": "2"}


def write(path: Path, rows: list[Any]) -> str:
    """As the path's ending says; bytes are a line as it stands."""
    if path.suffix == ".parquet":
        write_table(Table.from_pylist(rows), path)
        return str(path)
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(lines))
    return str(path)


def load(path: str, **changes: Any) -> list[Problem]:
    return list(load_split(jsonl_config(train_path=None, test_path=path, **changes), "test"))


def test_fields_ids_and_cap(tmp_path: Path) -> None:
    row = {"q": "a\u2028b?", "a": 3, "s": "so\n3", "name": "x-7", "other": None}
    lines = [b"\xef\xbb\xbf" + json.dumps(row).encode(), b" \r", b""]
    config = jsonl_config(
        train_path=write(tmp_path / "train.jsonl", lines),
        test_path=write(tmp_path / "test.jsonl", [{**row, "name": n} for n in (1, 2, 3)]),
        question_field="q", answer_field="a", solution_field="s", id_field="name",
        num_test_problems=2,
    )  # fmt: skip
    data = load_task(config)
    assert data.train_P == (Problem("jsonl/train/x-7", "a\u2028b?", "3", "so\n3"),)
    assert [problem.id for problem in data.test_P] == ["jsonl/test/1", "jsonl/test/2"]


def test_ids_count_from_zero_or_are_unique(tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", [GOOD, b"", GOOD])
    assert [problem.id for problem in load(path)] == ["jsonl/test/0", "jsonl/test/1"]
    path = write(tmp_path / "test.jsonl", [{**GOOD, "id": name} for name in ("a", 1, "1")])
    with pytest.raises(UserError, match=r"row 3: id '1' must be unique, also at .*: row 2"):
        load(path, id_field="id")


def test_a_file_to_evaluate_on_needs_no_train_set(tmp_path: Path) -> None:
    config = jsonl_config(train_path=None, test_path=write(tmp_path / "test.jsonl", [GOOD]))
    with pytest.raises(UserError, match=r"task\.train_path must name a file .* got null"):
        load_task(config)


def test_a_json_list_is_read_like_lines(tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    path.write_text(json.dumps([GOOD, {**GOOD, "question": "2+2?\n"}], indent=1))
    assert [problem.question for problem in load(str(path))] == ["1+1?", "2+2?\n"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b'["a"]', "must be a JSON object, got list"),
        (b'{"question": ', "must be a JSON object, got invalid JSON"),
        (b'{"question": "\xff"}', "must be UTF-8, got byte 0xff"),
        ({"answer": "2"}, "must have the field 'question', got ['answer']"),
        ({**GOOD, "question": " "}, "question must not be blank"),
        ({**GOOD, "question": 5}, "question must be a string, got int"),
        ({**GOOD, "answer": None}, "answer must be a string or number, got null"),
        ({**GOOD, "answer": float("nan")}, "answer must be finite, got nan"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: Any, message: str) -> None:
    path = write(tmp_path / "test.jsonl", [GOOD, b"", row])
    with pytest.raises(UserError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: row 3: {message}")


LIST = "must be a JSON list (its name ends in .json), "


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"a": 1}', f"{LIST}got dict"),
        ("a.json", f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}", LIST),
        ("a.json", f"[{json.dumps(GOOD)}, 3]", "row 2: must be a JSON object, got int"),
        ("a.jsonl", "\n \n", "must have at least one row"),
        ("a.parquet", "{}", "must be a Parquet file"),
        ("a.jsonl", None, "cannot be read: No such file"),
        ("", None, "cannot be read: Is a directory"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError) as error:
        load(str(path))
    assert str(error.value).startswith(f"{path}: {message}")


def verl_row(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"{index}+1?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(index + 1)},
        "extra_info": {"split": "test", "index": index},
        **changes,
    }


def fields_of(expression: str, tmp_path: Path) -> dict[str, Any]:
    """The fields that a piece of the config library names."""
    config = tmp_path / "mine.jsonnet"
    config.write_text(f"local task = import '{TASKS}'; {expression}")
    found = evaluate_jsonnet(str(config))
    assert found["kind"] == "jsonl"
    return {key: value for key, value in found.items() if key.endswith("_field")}


def load_verl(tmp_path: Path, *rows: Any, name: str = "test.parquet", **changes: Any) -> Any:
    return load(
        write(tmp_path / name, rows), **fields_of("task.verl('a', 'b')", tmp_path) | changes
    )


@pytest.mark.parametrize("name", ["test.parquet", "test.jsonl"])
def test_verl(tmp_path: Path, name: str) -> None:
    rows = [verl_row(index) for index in range(3)]
    problems = load_verl(tmp_path, *rows, name=name)
    assert problems == [Problem(f"jsonl/test/{i}", f"{i}+1?", str(i + 1)) for i in range(3)]
    assert all(problem.row is None for problem in problems)
    both = {"id_field": "extra_info.index", "grading": WITH_REWARD}
    second = load_verl(tmp_path, *rows, name=name, **both)[1]
    assert second.row == {**verl_row(1), "ground_truth": "2"}
    assert second == problems[1]  # a row is no part of what a problem is


def test_a_conversation_before_the_question(tmp_path: Path) -> None:
    said = [("system", "Be brief."), ("user", "1+1?"), ("assistant", "2"), ("user", "2+2?")]
    messages = [{"role": role, "content": content} for role, content in said]
    (problem,) = load_verl(tmp_path, verl_row(0, prompt=messages))
    assert (problem.question, problem.context) == ("2+2?", tuple(said[:3]))


@pytest.mark.parametrize("truth", [{"target": 24, "numbers": [3, 8]}, ["2", "two"]])
def test_a_true_answer_that_is_no_text_needs_a_reward_function(tmp_path: Path, truth: Any) -> None:
    row = verl_row(0, reward_model={"style": "rule", "ground_truth": truth})
    (problem,) = load_verl(tmp_path, row, grading=WITH_REWARD)
    assert json.loads(problem.answer) == truth == problem.row["reward_model"]["ground_truth"]
    with pytest.raises(UserError, match=r"row 1: reward_model\.ground_truth must be a string or n"):
        load_verl(tmp_path, row)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(" 18 ", "18"), (18, "18"), (-0.5, "-0.5"), (1e-7, "0.0000001"), (1e16, "10000000000000000")],
)
def test_answers_may_be_numbers(tmp_path: Path, answer: object, expected: str) -> None:
    row = {"question": "1+1?", "a.b": answer, "a": {"b": "0"}}  # a key with a dot is itself first
    (problem,) = load(write(tmp_path / "a.jsonl", [row]), answer_field="a.b")
    assert problem.answer == expected


def test_trl_and_openrlhf(tmp_path: Path) -> None:
    rows = [{"prompt": "1+1?", "ground_truth": "2", "label": "two", "level": 3}]
    path = write(tmp_path / "test.jsonl", rows)
    (problem,) = load(path, **fields_of("task.trl('a', 'b')", tmp_path), grading=WITH_REWARD)
    assert (problem.question, problem.answer, problem.row) == ("1+1?", "2", rows[0])
    (problem,) = load(path, **fields_of("task.trl('a', 'b', answer_field='label')", tmp_path))
    assert (problem.question, problem.answer) == ("1+1?", "two")


USER = {"role": "user", "content": "1+1?"}
IMAGE = {"role": "user", "content": [{"type": "text", "text": "1?"}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": [USER, {"role": "assistant", "content": "2"}]},
         "prompt must end with a message of the user, got roles ['user', 'assistant']"),
        ({"prompt": ["1+1?"]}, "prompt[0] must be a message with role and content, got '1+1?'"),
        ({"prompt": [{"role": "user"}]}, "prompt[0]: must have the field 'content', got ['role']"),
        ({"prompt": [IMAGE]}, "prompt[0]: content must be a string, got list"),
        ({"reward_model": {"style": "rule"}}, "must have the field 'reward_model.ground_truth'"),
    ],
)  # fmt: skip
def test_a_bad_conversation_is_named(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        load_verl(tmp_path, verl_row(0), verl_row(1, **changes), name="a.jsonl")
    assert str(error.value).startswith(f"{tmp_path}/a.jsonl: row 2: {message}")
