"""Rows of a user's own files, also in the forms of verl, TRL and OpenRLHF, and of GSM8K's."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from pyarrow import Table
from pyarrow.parquet import write_table
from support.task_configs import GRADING, jsonl_config

from vineppo.config.load import evaluate_jsonnet
from vineppo.errors import UserError
from vineppo.recipes.jsonl import OtherTest
from vineppo.tasks import load_split, load_task
from vineppo.tasks.grading import Grader
from vineppo.types import Problem, Split

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
        test_path=write(tmp_path / "test.jsonl", [{**row, "name": n, "a": n} for n in (1, 2, 3)]),
        question_field="q", answer_field="a", solution_field="s", id_field="name",
        num_test_problems=2,
    )  # fmt: skip
    data = load_task(config)
    assert data.train_P == (Problem("jsonl/train/x-7", "a\u2028b?", "3", "so\n3"),)
    assert [problem.id for problem in data.test_P] == ["jsonl/test/1", "jsonl/test/2"]


def test_ids_count_from_zero_or_are_unique(tmp_path: Path) -> None:
    path = write(tmp_path / "test.jsonl", [GOOD, b"", {**GOOD, "answer": 3}])
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


DATA = TASKS.with_name("data.libsonnet")
INTEGERS = [("204", "204", "205"), ("033", "33", "32"), ("0", "0.0", "1"), ("7", "$7$", "3+4")]
# By data set: a row but question and answer, with the columns of its card; true answers that are
# like its own, with a right response and a wrong one.
SETS: dict[str, tuple[dict[str, Any], list[tuple[Any, str, str]]]] = {
    "aime_2024": (
        {"id": 60, "solution": "So.", "url": "https://x", "year": "2024"},
        [*INTEGERS, ("540", "540", "54")],
    ),
    "aime_2025": ({"id": "0"}, [*INTEGERS, ("82", r"82\text{ degrees}", "28")]),
    "amc": (
        {"id": 0, "url": "https://x"},
        [(142.0, "142", "142.5"), (3159.0, "3,159", "3158"), (0.0, "0", "1"), (-2.0, "-2", "2"),
         (20.0, "20.0", "10+10")],
    ),
    "amc_2023": ({"id": 0, "url": "https://x"}, [*INTEGERS, ("50", "50%", "5")]),
    "minerva": (
        {},
        [(r"\frac{1}{2}", "0.5", "0.25"), ("4.5e33", r"4.5\times 10^{33}", r"4.5\times 10^{32}"),
         ("1.4e-3", "0.0014", "0.014"), ("x^2+2x", "x(x+2)", "x^2+2"),
         (r"\arcsin{1.3 \sin{\theta_w}}", r"\arcsin(1.3\sin\theta_w)", r"\arcsin(1.3)")],
    ),
    "dapo": (
        {"data_source": "math_dapo", "ability": "MATH", "extra_info": {"index": "9a9b6eb4"},
         "source_prompt": [{"role": "user", "content": "Solve"}],
         "reward_model": {"ground_truth": "34", "style": "rule"}},
        [*INTEGERS, ("-12", "-12", "12")],
    ),
    "deepscaler": (
        {"solution": ""},
        [(r"-\frac{2}{3}", r"-\dfrac23", r"\frac{2}{3}"), ("x^2+2x", "x(x+2)", "x^2"),
         (r"\sqrt{3}", r"3^{1/2}", "1.7"), ("(1,2)", r"\left(1, 2\right)", "(2,1)"),
         (r"50\%", "50 %", "5%")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_a_named_set_is_read_and_scored(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five rows of its columns, from a file and from a repository of the hub's layout."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "of.jsonnet").write_text(f"(import '{DATA}').{name}")
    keys = evaluate_jsonnet(str(tmp_path / "of.jsonnet"))
    assert keys.pop("kind") == "jsonl"
    is_train = "other_test" in keys
    others, truths = SETS[name]
    question, answer = keys["question_field"], keys.get("answer_field", "answer")
    rows = [{**others, question: f"{i}?", answer: truth} for i, (truth, *_) in enumerate(truths)]
    if is_train:
        assert keys.pop("other_test")["hub_path"] == "HuggingFaceH4/aime_2024"
    if keys.get("no_answer"):
        rows.append({**others, question: "Which?", answer: " "})
    split = "train" if is_train else keys.get("test_split", "test")
    (hub := tmp_path / "hub").mkdir()
    (hub / "README.md").write_text(
        f"---\nconfigs:\n- config_name: {keys.get('hub_name', 'default')}\n  data_files:\n"
        f"  - split: {split}\n    path: rows.jsonl\n---\n"
    )
    path = write(hub / "rows.jsonl", rows)
    side: Split = "train" if is_train else "test"
    config = jsonl_config(**{**keys, "train_path": None, "test_path": None, "hub_path": str(hub)})
    problems = load_split(config, side)
    assert problems == load_split(replace(config, **{f"{side}_path": path}), side)
    assert len(problems) == len(truths) == 5
    with Grader(replace(GRADING, extraction="boxed")) as grader:
        for problem, (_, right, wrong) in zip(problems, truths, strict=True):
            texts = [rf"So it is $\boxed{{{text}}}$." for text in (right, wrong)]
            futures = [grader.submit(problem, text, "stop") for text in texts]
            assert [future.result() for future in futures] == [1.0, 0.0], (right, wrong)


def test_another_set_to_test_on_has_its_own_fields(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{key}.jsonl", [{key: f"{key}?", "a": 1, "answer": 2}]) for key in "qp"
    ]
    config = jsonl_config(
        train_path=paths[0], test_path=paths[1], question_field="q", answer_field="a",
        other_test=OtherTest(hub_path="no/such", question_field="p"),
    )  # fmt: skip
    data = load_task(config)
    found = [(problem.question, problem.answer) for problem in (*data.train_P, *data.test_P)]
    assert found == [("q?", "1"), ("p?", "2")]
    with pytest.raises(UserError, match=r"task\.hub_path no/such \[test\] cannot be loaded"):
        load_task(replace(config, test_path=None))
