"""A run's problems and grader as a task of lighteval."""

import json
import sys
from types import SimpleNamespace

import pytest
from support.training import CONFIGS

from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.lighteval import Problems, lighteval_task
from vineppo.models import ASSETS
from vineppo.run_dir import RunDir


@pytest.fixture
def run(tmp_path):
    """Of the demo's config with three problems; its policy is the embedded one."""
    return made_run(tmp_path / "mine", "demo_vineppo")


def made_run(path, name):
    config = load_config(
        TrainConfig, str(CONFIGS / f"{name}.jsonnet"), ["task.num_test_problems=3"]
    )
    run = RunDir.open(path, to_dict(config), {})
    run.append_metrics({"iteration": 1})
    run.final_path.mkdir()
    (run.final_path / "policy").symlink_to(ASSETS / "arithmetic_short")
    return path


def test_rows_are_the_test_problems(run):
    problems = Problems(run)
    lines = (problems.write_rows() / "test.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == [f"arithmetic/test/{index}" for index in range(3)]
    for row in rows:
        assert row["prompt"].endswith("?\n")
        assert eval(row["prompt"][:-2]) % 10 == int(row["answer"])


def graded(problems, answers):
    """`rewards` of the right answer, a wrong one, and the right one cut off."""
    ids = list(answers)
    right, wrong = (f"#### {(int(answers[ids[0]]) + more) % 10}" for more in (0, 1))
    end = problems._end_id
    return problems.rewards([ids[0]] * 3, [(right, [5, end]), (wrong, [5, end]), (right, [5, 5])])


def test_rewards_are_the_runs(run):
    problems = Problems(run)
    rows = (problems.write_rows() / "test.jsonl").read_text().splitlines()
    answers = {row["id"]: row["answer"] for row in map(json.loads, rows)}
    assert graded(problems, answers) == [1.0, 0.0, 0.0]


def test_other_problems_have_a_name_of_their_own(run, tmp_path):
    path = tmp_path / "few.jsonnet"
    source = CONFIGS / "demo_vineppo.jsonnet"
    path.write_text(f"(import '{source}').task + {{ num_test_problems: 2 }}")
    problems = Problems(run, str(path))
    assert problems.name == "mine_few"
    assert len((problems.write_rows() / "test.jsonl").read_text().splitlines()) == 2


def test_tasks_of_several_turns_are_refused(tmp_path):
    with pytest.raises(UserError, match="one turn and message"):
        Problems(made_run(tmp_path / "drill", "drill_vineppo"))


def test_formulas_are_refused(run, tmp_path):
    """lighteval's math-verify does not know 2x from x + x."""
    rows = [{"question": "x + x?", "answer": "2x"}]
    file, path = tmp_path / "rows.jsonl", tmp_path / "formulas.jsonnet"
    file.write_text("".join(json.dumps(row) for row in rows))
    path.write_text(f"(import '{CONFIGS}/lib/task.libsonnet').jsonl('{file}', '{file}')")
    with pytest.raises(UserError, match=r"must have numbers as answers, .*, got 2x"):
        Problems(run, str(path))


def test_without_lighteval_one_line_says_so(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "lighteval", None)
    with pytest.raises(UserError, match="needs `pip install lighteval`"):
        lighteval_task(str(run))


def test_lighteval_grades_as_the_run_does(run, monkeypatch, tmp_path):
    pytest.importorskip("lighteval", reason="the extra `lighteval` is not installed")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    from lighteval.metrics import apply_metric
    from lighteval.tasks.lighteval_task import LightevalTask

    task = LightevalTask(lighteval_task(str(run)))
    task.load_datasets({task.full_name: task})
    docs = task.get_docs()
    assert sorted(doc.specific["id"] for doc in docs) == [
        f"arithmetic/test/{index}" for index in range(3)
    ]
    responses = [
        SimpleNamespace(
            text=[f"#### {doc.get_golds()[0]}"], output_tokens=[[Problems(run)._end_id]]
        )
        for doc in docs
    ]
    responses[1].text = ["no answer"]
    found = apply_metric(responses=responses, docs=docs, metrics=task.metrics)
    assert found == [{"reward": 1.0}, {"reward": 0.0}, {"reward": 1.0}]
