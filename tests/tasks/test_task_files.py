"""Reading tasks from files: a user's own, and GSM8K's."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.shared_data import data_file
from support.task_configs import gsm8k_config, jsonl_config

from vineppo.errors import UserError
from vineppo.tasks import load_split, load_task
from vineppo.tasks.published import gsm8k_problem

GOOD = {"question": "1+1?", "answer": "2"}


def _write(path: Path, *rows: Any) -> str:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(lines))
    return str(path)


def _load_jsonl(tmp_path: Path, *rows: Any, **changes: Any) -> Any:
    train_path = _write(tmp_path / "train.jsonl", *rows)
    test_path = _write(tmp_path / "test.jsonl", *[{**GOOD, "id": f"t{i}"} for i in range(5)])
    return load_task(jsonl_config(train_path=train_path, test_path=test_path, **changes))


def test_jsonl_fields_ids_and_cap(tmp_path: Path) -> None:
    row = {"q": "a\u2028b?", "a": 3, "s": "so\n3", "name": "x-7", "other": None}
    (tmp_path / "test").mkdir()
    path = _write(tmp_path / "train.jsonl", b"\xef\xbb\xbf" + json.dumps(row).encode(), b" \r", b"")
    config = jsonl_config(
        train_path=path,
        test_path=_write(tmp_path / "test.jsonl", *[{**row, "name": n} for n in (1, 2, 3)]),
        question_field="q",
        answer_field="a",
        solution_field="s",
        id_field="name",
        num_test_problems=2,
    )
    data = load_task(config)
    (problem,) = data.train_P
    assert (problem.id, problem.question) == ("jsonl/train/x-7", "a\u2028b?")
    assert (problem.answer, problem.solution) == ("3", "so\n3")
    assert [problem.id for problem in data.test_P] == ["jsonl/test/1", "jsonl/test/2"]


def test_ids_count_from_zero_without_id_field(tmp_path: Path) -> None:
    data = _load_jsonl(tmp_path, GOOD, b"", GOOD)
    assert [problem.id for problem in data.train_P] == ["jsonl/train/0", "jsonl/train/1"]
    assert len(data.test_P) == 5


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(" 18 ", "18"), (18, "18"), (-0.5, "-0.5"), (1e-7, "0.0000001"), (1e16, "10000000000000000")],
)
def test_answers_may_be_numbers(tmp_path: Path, answer: object, expected: str) -> None:
    data = _load_jsonl(tmp_path, {**GOOD, "answer": answer})
    assert data.train_P[0].answer == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b'["a"]', "must be a JSON object, got list"),
        (b'{"question": ', "must be a JSON object, got invalid JSON"),
        (b"[" * 100_000, "must be a JSON object, got invalid JSON"),
        (b'{"question": "\xff"}', "must be UTF-8, got byte 0xff"),
        ({"answer": "2"}, "must have the field 'question', got ['answer']"),
        ({**GOOD, "question": " "}, "question must not be blank"),
        ({**GOOD, "question": 5}, "question must be a string, got int"),
        ({**GOOD, "question": "\ud800"}, "question must be valid Unicode"),
        ({**GOOD, "answer": None}, "answer must be a string or number, got null"),
        ({**GOOD, "answer": True}, "answer must be a string or number, got bool"),
        ({**GOOD, "answer": ""}, "answer must not be blank"),
        ({**GOOD, "answer": float("nan")}, "answer must be finite, got nan"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        _load_jsonl(tmp_path, GOOD, b"", row)
    assert str(error.value).startswith(f"{tmp_path}/train.jsonl: row 3: {message}")


def test_a_json_list_is_read_like_lines(tmp_path: Path) -> None:
    path = tmp_path / "test.json"
    path.write_text(json.dumps([GOOD, {**GOOD, "question": "2+2?\n"}], indent=1))
    config = jsonl_config(train_path=None, test_path=str(path))
    assert [problem.question for problem in load_split(config, "test")] == ["1+1?", "2+2?\n"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}', "must be a JSON list (its name ends in .json), got dict"),
        (
            f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}",
            "must be a JSON list (its name ends in .json), ",
        ),
        (f"[{json.dumps(GOOD)}, 3]", "row 2: must be a JSON object, got int"),
        ("[]", "must have at least one row"),
    ],
)
def test_a_bad_json_list_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "test.json"
    path.write_text(content)
    with pytest.raises(UserError) as error:
        load_split(jsonl_config(train_path=None, test_path=str(path)), "test")
    assert str(error.value).startswith(f"{path}: {message}")


def test_a_file_to_evaluate_on_needs_no_train_set(tmp_path: Path) -> None:
    config = jsonl_config(train_path=None, test_path=_write(tmp_path / "test.jsonl", GOOD))
    assert [problem.id for problem in load_split(config, "test")] == ["jsonl/test/0"]
    with pytest.raises(UserError, match=r"task\.train_path must name a file .* got null"):
        load_task(config)


def test_ids_must_be_unique(tmp_path: Path) -> None:
    rows = [{**GOOD, "id": name} for name in ("a", 1, "1")]
    with pytest.raises(UserError, match=r"row 3: id '1' must be unique, also at .*: row 2"):
        _load_jsonl(tmp_path, *rows, id_field="id")


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train\.jsonl: must have at least one row"):
        _load_jsonl(tmp_path, b"\n \n")
    missing = jsonl_config(train_path=str(tmp_path / "none.jsonl"), test_path="x")
    with pytest.raises(UserError, match=r"none\.jsonl: cannot be read: No such file"):
        load_task(missing)
    with pytest.raises(UserError, match=r"cannot be read: Is a directory"):
        load_task(jsonl_config(train_path=str(tmp_path), test_path="x"))


@pytest.mark.parametrize(
    ("final", "expected"), [("72", "72"), (" $1,234 ", "1234"), ("-5", "-5"), ("0.5", "0.5")]
)
def test_gsm8k_row(final: str, expected: str) -> None:
    worked = f"She has 2*3=<<2*3=6>>6, $<<1+1=2>>2.\n####{final}"
    problem = gsm8k_problem({"question": "?", "answer": worked}, "file: row 1", "gsm8k/train/0")
    assert problem.answer == expected
    assert problem.solution == f"She has 2*3=6, $2.\n####{final}"


@pytest.mark.parametrize("answer", ["no separator", "#### "])
def test_gsm8k_row_without_an_answer(answer: str) -> None:
    with pytest.raises(UserError, match=r"file: row 9: answer must end with '#### <number>'"):
        gsm8k_problem({"question": "?", "answer": answer}, "file: row 9", "id")


def test_all_of_gsm8k() -> None:
    paths = {split: str(data_file(f"gsm8k/{split}.jsonl")) for split in ("train", "test")}
    config = gsm8k_config(train_path=paths["train"], test_path=paths["test"])
    data = load_task(config)
    assert (len(data.train_P), len(data.test_P)) == (7473, 1319)
    assert data.train_P[0].answer == "72"
    assert data.train_P[0].id == "gsm8k/train/0"
    problems = (*data.train_P, *data.test_P)
    assert len({problem.id for problem in problems}) == 7473 + 1319
    for problem in problems:
        float(problem.answer)
        assert problem.solution is not None
        assert "<<" not in problem.solution
        assert ">>" not in problem.solution
