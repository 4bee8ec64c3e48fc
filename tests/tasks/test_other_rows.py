"""Data sets in the forms of verl, TRL and OpenRLHF."""

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
from vineppo.tasks import load_split
from vineppo.tasks.rows import JsonlTask
from vineppo.types import Problem

TASKS = Path(__file__).parents[2] / "configs" / "lib" / "task.libsonnet"
WITH_REWARD = replace(GRADING, reward_path="mine.py")


def verl_row(index: int, **changes: Any) -> dict[str, Any]:
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"{index}+1?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(index + 1)},
        "extra_info": {"split": "test", "index": index},
        **changes,
    }


def write(path: Path, rows: list[Any]) -> str:
    if path.suffix == ".parquet":
        write_table(Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def fields_of(expression: str, tmp_path: Path) -> dict[str, Any]:
    """The fields that a piece of the config library names."""
    config = tmp_path / "mine.jsonnet"
    config.write_text(f"local task = import '{TASKS}'; {expression}")
    found = evaluate_jsonnet(str(config))
    assert found["kind"] == "jsonl"
    return {key: value for key, value in found.items() if key.endswith("_field")}


def load(path: str, fields: dict[str, Any], grading: Any = GRADING) -> list[Problem]:
    config: JsonlTask = jsonl_config(train_path=None, test_path=path, grading=grading, **fields)
    return list(load_split(config, "test"))


@pytest.mark.parametrize("name", ["test.parquet", "test.jsonl"])
def test_verl(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, [verl_row(index) for index in range(3)])
    fields = fields_of("task.verl('a', 'b')", tmp_path)
    problems = load(path, fields)
    assert [(p.id, p.question, p.answer) for p in problems] == [
        (f"jsonl/test/{i}", f"{i}+1?", str(i + 1)) for i in range(3)
    ]
    assert all(p.row is None and p.context == () for p in problems)
    second = load(path, {**fields, "id_field": "extra_info.index"}, WITH_REWARD)[1]
    assert second.row == {**verl_row(1), "ground_truth": "2"}
    assert second == problems[1]  # a row is no part of what a problem is


def test_a_conversation_before_the_question(tmp_path: Path) -> None:
    said = [("system", "Be brief."), ("user", "1+1?"), ("assistant", "2"), ("user", "2+2?")]
    messages = [{"role": role, "content": content} for role, content in said]
    path = write(tmp_path / "test.parquet", [verl_row(0, prompt=messages)])
    (problem,) = load(path, fields_of("task.verl('a', 'b')", tmp_path))
    assert (problem.question, problem.context) == ("2+2?", tuple(said[:3]))


@pytest.mark.parametrize("truth", [{"target": 24, "numbers": [3, 8]}, ["2", "two"]])
def test_a_true_answer_that_is_no_text_needs_a_reward_function(tmp_path: Path, truth: Any) -> None:
    row = verl_row(0, reward_model={"style": "rule", "ground_truth": truth})
    path = write(tmp_path / "test.parquet", [row])
    fields = fields_of("task.verl('a', 'b')", tmp_path)
    (problem,) = load(path, fields, WITH_REWARD)
    assert json.loads(problem.answer) == truth
    assert problem.row is not None
    assert problem.row["reward_model"]["ground_truth"] == truth
    with pytest.raises(UserError, match=r"row 1: reward_model\.ground_truth must be a string or n"):
        load(path, fields)


def test_trl_and_openrlhf(tmp_path: Path) -> None:
    rows = [{"prompt": "1+1?", "ground_truth": "2", "label": "two", "level": 3}]
    path = write(tmp_path / "test.jsonl", rows)
    (problem,) = load(path, fields_of("task.trl('a', 'b')", tmp_path), WITH_REWARD)
    assert (problem.question, problem.answer, problem.row) == ("1+1?", "2", rows[0])
    (problem,) = load(path, fields_of("task.trl('a', 'b', answer_field='label')", tmp_path))
    assert (problem.question, problem.answer) == ("1+1?", "two")


def test_a_key_with_a_dot_is_itself_first(tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", [{"prompt": "1?", "a.b": "1", "a": {"b": "2"}}])
    (problem,) = load(path, {"question_field": "prompt", "answer_field": "a.b"})
    assert problem.answer == "1"


USER = {"role": "user", "content": "1+1?"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": [USER, {"role": "assistant", "content": "2"}]},
         "prompt must end with a message of the user, got roles ['user', 'assistant']"),
        ({"prompt": []}, "prompt must end with a message of the user, got roles []"),
        ({"prompt": ["1+1?"]}, "prompt[0] must be a message with role and content, got '1+1?'"),
        ({"prompt": [{"role": "user"}]}, "prompt[0]: must have the field 'content', got ['role']"),
        ({"prompt": [{"role": "user", "content": [{"type": "text", "text": "1?"}]}]},
         "prompt[0]: content must be a string, got list"),
        ({"reward_model": {"style": "rule"}}, "must have the field 'reward_model.ground_truth'"),
        ({"reward_model": "rule"}, "must have the field 'reward_model.ground_truth', got"),
    ],
)  # fmt: skip
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "test.jsonl", [verl_row(0), verl_row(1, **changes)])
    with pytest.raises(UserError) as error:
        load(path, fields_of("task.verl('a', 'b')", tmp_path))
    assert str(error.value).startswith(f"{path}: row 2: {message}")


def test_what_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "test.parquet").write_text("{}")
    with pytest.raises(UserError, match=r"test\.parquet: must be a Parquet file"):
        load(str(tmp_path / "test.parquet"), {})
    with pytest.raises(UserError, match=r"nowhere\.parquet: cannot be read: No such file"):
        load(str(tmp_path / "nowhere.parquet"), {})
    path = write(tmp_path / "empty.parquet", [])
    with pytest.raises(UserError, match=r"empty\.parquet: must have at least one row"):
        load(path, {})
