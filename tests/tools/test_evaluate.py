"""`vineppo evaluate --task`: whose prompts and grading hold, and what is refused; no engine."""

import json
from pathlib import Path

import pytest

from vineppo.config.load import evaluate_jsonnet
from vineppo.errors import UserError
from vineppo.recipes.jsonl import JsonlTask
from vineppo.tools.evaluate_run import read_conditions

DATA = Path(__file__).parents[2] / "configs" / "lib" / "data.libsonnet"


@pytest.fixture
def run(configs: Path, tmp_path: Path) -> Path:
    """A run directory as far as its config."""
    path = tmp_path / "run"
    path.mkdir()
    resolved = evaluate_jsonnet(str(configs / "gsm8k_qwen2.5_0.5b_vineppo.jsonnet"))
    (path / "config.json").write_text(json.dumps(resolved))
    return path


def task_file(directory: Path, name: str = "mine", content: str = "{}") -> str:
    data = f"(import '{DATA}').jsonl(null, 'mine.jsonl')"
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.jsonnet").write_text(f"{data} + {content}")
    return str(directory / f"{name}.jsonnet")


def test_the_shipped_tasks_are_put_as_the_run_puts_its_own(configs: Path, run: Path) -> None:
    paths = sorted(map(str, (configs / "evaluation").glob("*.jsonnet")))
    assert len(paths) == 9
    (own,) = read_conditions(run, [], [])
    for path, other in zip(paths, read_conditions(run, paths, []), strict=True):
        assert other.folder == f"task={Path(path).stem}"
        assert other.config.task.kind in (Path(path).stem, "jsonl")
        assert other.config.task.prompt == own.config.task.prompt
        assert other.config.task.grading == own.config.task.grading
        # The run was trained on GSM8K, whose test set is its own.
        assert (other.other_task is None) == (Path(path).stem == "gsm8k")
        assert other.config.sampling == own.config.sampling
    assert (own.folder, own.other_task) == ("", None)


def test_a_file_may_name_what_differs_and_assignments_come_last(run: Path, tmp_path: Path) -> None:
    prompt = "{ prompt: { kind: 'template', template: 'Q {question}' } }"
    path = task_file(tmp_path, content=prompt)
    settings = ["task.num_test_problems=7", "evaluation.temperature=0.5"]
    (found,) = read_conditions(run, [path], settings)
    assert found.folder == "task=mine,task.num_test_problems=7,evaluation.temperature=0.5"
    task = found.config.task
    assert isinstance(task, JsonlTask)
    assert (task.num_test_problems, task.prompt.template) == (7, "Q {question}")
    assert task.grading.extraction == "boxed"
    assert found.other_task is not None
    assert found.other_task["test_path"] == "mine.jsonl"


def test_settings_of_the_run_s_own_task_are_told_apart_too(run: Path) -> None:
    (found,) = read_conditions(run, [], ["task.num_test_problems=7"])
    assert found.other_task is not None
    (found,) = read_conditions(run, [], ["evaluation.temperature=0.5"])
    assert found.other_task is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{ kind:: null }", "mine.jsonnet: config: missing key task.kind"),
        ("{ kind: 'mine' }", "mine.jsonnet: config: task: kind must be one of"),
        ("{ temperature: 1 }", "mine.jsonnet: config: unknown key task.temperature"),
        ("{ prompt+: { template: 'Q' } }", "mine.jsonnet: config: missing key task.prompt.kind"),
    ],
)
def test_a_bad_task_file_is_one_line(run: Path, tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        read_conditions(run, [task_file(tmp_path, content=content)], [])
    assert message in str(error.value)


def test_an_own_file_that_has_gone_is_one_line(run: Path, tmp_path: Path) -> None:
    resolved = json.loads((run / "config.json").read_text())
    resolved["task"]["grading"]["reward_path"] = str(tmp_path / "gone.py")
    (run / "config.json").write_text(json.dumps(resolved))
    with pytest.raises(UserError) as error:
        read_conditions(run, [], [])
    assert str(error.value) == f"{tmp_path}/gone.py: no such file"
    (tmp_path / "gone.py").write_text("def reward(question, answer, response): return 1.0")
    assert len(read_conditions(run, [], [])) == 1


def test_two_files_of_one_name_are_refused(run: Path, tmp_path: Path) -> None:
    paths = [task_file(tmp_path / name) for name in ("a", "b")]
    with pytest.raises(UserError, match=r"--task: the files must differ in their names, got .*b"):
        read_conditions(run, paths, [])
