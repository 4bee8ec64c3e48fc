"""A run's problems and grader as a task of lighteval."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.training import CONFIGS

from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import ASSETS
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.run_dir import RunDir
from vineppo.tools.lighteval import Problems, lighteval_task

END = 2  # of the embedded policy


def ids_of(text):
    return build_tokenizer()(text, add_special_tokens=False)["input_ids"]


@pytest.fixture
def run(tmp_path):
    """A run of the demo's config with three problems; its policy is the embedded one."""
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


def test_rewards_are_the_runs(run):
    """The right answer, a wrong one, and the right one cut off."""
    problems = Problems(run)
    row = json.loads((problems.write_rows() / "test.jsonl").read_text().splitlines()[0])
    right, wrong = (f"####{(int(row['answer']) + more) % 10}" for more in (0, 1))
    ids = [[*ids_of(right), END], [*ids_of(wrong), END], ids_of(right)]
    assert problems.rewards([row["id"]] * 3, ids) == [1.0, 0.0, 0.0]


def test_a_prompt_that_lighteval_would_read_otherwise_is_refused(run):
    problems = Problems(run)
    problem = next(iter(problems._by_id.values()))
    problems._by_id = {problem.id: replace(problem, question="4+6<eos>?")}
    with pytest.raises(UserError, match=r"test/0: lighteval_task must have prompts that .* as the"):
        problems.write_rows()


def test_other_problems_have_a_name_of_their_own(run, tmp_path):
    path = tmp_path / "few.jsonnet"
    source = CONFIGS / "demo_vineppo.jsonnet"
    path.write_text(f"(import '{source}').task + {{ num_test_problems: 2 }}")
    problems = Problems(run, str(path))
    assert problems.name == "mine_few"
    assert len((problems.write_rows() / "test.jsonl").read_text().splitlines()) == 2


def task_file(tmp_path, answer, more=""):
    file, path = tmp_path / "rows.jsonl", tmp_path / "other.jsonnet"
    file.write_text(json.dumps({"question": "What?", "answer": answer}))
    path.write_text(f"(import '{CONFIGS}/lib/task.libsonnet').jsonl('{file}', '{file}')" + more)
    return str(path)


CHAT = " { prompt: { kind: 'chat', template: '{question}', system: null } }"


@pytest.mark.parametrize(
    ("answer", "more", "message"),
    [
        ("2x", "", "must have numbers as answers, .*, got 2x"),  # math-verify does not know x + x
        ("3,5", "", "must have numbers as answers, .*, got 3,5"),
        ("2", CHAT, r"task\.prompt\.kind must be 'template'"),
    ],
)
def test_tasks_that_it_cannot_grade_are_refused(run, tmp_path, answer, more, message):
    with pytest.raises(UserError, match=message):
        Problems(run, task_file(tmp_path, answer, more))


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
        SimpleNamespace(output_tokens=[[*ids_of(f"####{doc.get_golds()[0]}"), END]]) for doc in docs
    ]
    responses[1].text = ["no answer"]
    found = apply_metric(responses=responses, docs=docs, metrics=task.metrics)
    assert found == [{"reward": 1.0}, {"reward": 0.0}, {"reward": 1.0}]
