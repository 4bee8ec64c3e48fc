"""docs/extending.md on other libraries: its files, commands and numbers."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from pyarrow.parquet import read_table
from support.page import PAGE, SMALL, page_files
from support.processes import run_cli

from vineppo.cli import main
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader

COMMANDS = [["train", f"mine/{form}.jsonnet"] for form in ("trl", "openrlhf", "verl")]


@pytest.fixture(autouse=True)
def files(tmp_path, configs, monkeypatch) -> Path:
    """The page's files where it has them, and the rows that its script makes."""
    found = page_files()
    assert all(f"vineppo {' '.join(command)}\n" in PAGE.read_text() for command in COMMANDS)
    (tmp_path / "mine").mkdir()
    for path, code in found.items():
        (tmp_path / path).write_text(code)
    (tmp_path / "configs").symlink_to(configs)
    monkeypatch.chdir(tmp_path)
    assert "python mine/make_rows.py\n" in PAGE.read_text()
    runpy.run_path("mine/make_rows.py")
    return tmp_path / "mine"


def graded(name: str, text_of: Any) -> list[float]:
    """The rewards of each text about the first problem of the config."""
    task = load_config(TrainConfig, f"mine/{name}.jsonnet", []).task
    problem = load_task(task).train_P[0]
    with Grader(task.grading) as grader:
        return [grader.submit(problem, t, "stop").result() for t in text_of(problem.answer)]


@pytest.mark.slow
def test_a_function_that_imports_torch_grades():
    assert graded("openrlhf", lambda a: [f"####{a}", f"{a}####"]) == [1.0, 0.0]


def test_the_functions_of_others_grade():
    assert graded("trl", lambda a: [f"1\n####{a}", f"####{int(a) + 1}", "1"]) == [1.0, 0.1, 0.0]
    (row, *_) = read_table("mine/train.parquet").to_pylist()
    digits = [int(digit) for digit in re.findall(r"\d", row["prompt"][0]["content"])]
    found = graded("verl", lambda a: [f"####{a}", "####"])
    assert found == [pytest.approx(0.5 + max(digits) / 18), 0.0]


def test_the_rows_are_problems():
    data = load_task(load_config(TrainConfig, "mine/verl.jsonnet", []).task)
    assert (len(data.train_P), len(data.test_P)) == (64, 16)
    for problem in data.train_P:
        digits = [int(digit) for digit in re.findall(r"\d", problem.question)]
        assert len(digits) == 5
        assert sum(digits) % 10 == int(problem.answer)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=() if "verl" in command[-1] else pytest.mark.slow)
        for command in COMMANDS
    ],
    ids=" ".join,
)
def test_a_command_trains(command):
    settings = [f"--set={key}={value}" for key, value in SMALL.items()]
    done = run_cli([*command, *settings])
    assert done.returncode == 0, done.stdout + done.stderr
    name = Path(command[-1]).stem
    rows = read_table(f"runs/{name}/rollouts/iter_000002.parquet").to_pylist()
    assert len(rows) == 16
    possible = {
        "trl": {0.0, 0.1, 1.0},
        "openrlhf": {0.0, 1.0},
        "verl": {0.0, *(round(0.5 + digit / 18, 6) for digit in range(10))},
    }
    assert {round(row["reward"], 6) for row in rows} <= possible[name]
    assert any(row["reward"] > 0 for row in rows)
    assert list(json.loads(Path(f"runs/{name}/own_files.json").read_text())["sha256"]) == [
        f"mine/{name}.py"
    ]
    assert main(["push", f"runs/{name}", "--to", "model"]) == 0
    assert f"needs `mine/{name}.py`" in Path("model/README.md").read_text()
