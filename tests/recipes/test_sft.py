"""Supervised fine-tuning from scratch and `vineppo evaluate`, by the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import environment, run_cli
from support.training import NO_WANDB, WITHOUT_VLLM

from vineppo.run_dir.config import read_config
from vineppo.tasks import load_split

SMALL = {
    "task.num_train_problems": 512,
    "task.num_test_problems": 16,
    "optimization.batch_size": 64,
    "optimization.micro_batch_size": 48,
    "evaluation.every": 4,
    "checkpoint.every": 4,
    "checkpoint.keep": 2,
    **NO_WANDB,
    **WITHOUT_VLLM,
}


def vineppo(*arguments: str) -> str:
    done = run_cli(arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def console_script(*arguments: str) -> str:
    """As it was installed, in a process of its own."""
    script = str(Path(sys.executable).with_name("vineppo"))
    done = subprocess.run(
        [script, *arguments], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run_dir(configs, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sft") / "run"
    assignments = [f"--set={key}={value}" for key, value in SMALL.items()]
    vineppo("sft", str(configs / "sft_arithmetic.jsonnet"), f"--run-dir={path}", *assignments)
    return path


@pytest.mark.slow
def test_the_installed_program_trains_and_evaluates_alike(configs, run_dir, tmp_path):
    assignments = [f"--set={key}={value}" for key, value in SMALL.items()]
    config = str(configs / "sft_arithmetic.jsonnet")
    console_script("sft", config, f"--run-dir={tmp_path / 'run'}", *assignments)
    evaluation = tmp_path / "run/evaluations/iter_000008.json"
    evaluation.unlink()
    assert "iter_000008.json" in console_script("evaluate", str(tmp_path / "run"))
    assert evaluation.read_bytes() == (run_dir / "evaluations/iter_000008.json").read_bytes()


def test_loss_falls_by_one_pass_over_the_demonstrations(run_dir):
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == list(range(1, 9))
    losses = [row["sft/loss"] for row in rows]
    assert losses[0] == pytest.approx(3.05, abs=0.15)  # log 21: uniform over the vocabulary
    assert losses[-1] < losses[0] - 0.3
    assert ["eval/pass@1" in row for row in rows] == [False, False, False, True] * 2


def test_evaluate_repeats_the_runs_own_evaluation(run_dir):
    """Same seeds, same checkpoint: the same numbers, from a new process."""
    own = (run_dir / "evaluations/iter_000008.json").read_bytes()
    (run_dir / "evaluations/iter_000008.json").unlink()
    assert "iter_000008.json" in vineppo("evaluate", str(run_dir))
    assert (run_dir / "evaluations/iter_000008.json").read_bytes() == own


def test_evaluate_under_other_conditions_keeps_the_runs_own(run_dir):
    own = (run_dir / "evaluations/iter_000004.json").read_bytes()
    settings = ["--set=evaluation.temperature=0", "--set=evaluation.num_samples=1"]
    vineppo("evaluate", str(run_dir), "--checkpoints=4,8", *settings)
    assert (run_dir / "evaluations/iter_000004.json").read_bytes() == own
    (folder,) = [path for path in (run_dir / "evaluations").iterdir() if path.is_dir()]
    for iteration in (4, 8):
        found = json.loads((folder / f"iter_{iteration:06d}.json").read_text())
        assert (found["temperature"], found["samples_per_problem"]) == (0.0, 1)


def test_the_same_problems_from_a_file_are_answered_alike(run_dir, tmp_path):
    """Greedily, so that the problems' ids, of which the seeds are made, decide nothing."""
    rows = [
        {"question": problem.question, "answer": problem.answer}
        for problem in load_split(read_config(run_dir).task, "test")
    ]
    for name, kept in (("all", rows), ("three", rows[:3])):
        lines = "".join(json.dumps(row) + "\n" for row in kept)
        (tmp_path / f"{name}.jsonl").write_text(lines)
        task = {
            **{"kind": "jsonl", "train_path": None, "test_path": str(tmp_path / f"{name}.jsonl")},
            **{"question_field": "question", "answer_field": "answer", "num_test_problems": None},
            **{"solution_field": None, "id_field": None},
        }
        (tmp_path / f"{name}.jsonnet").write_text(json.dumps(task))
    settings = ["--set=evaluation.temperature=0", "--set=evaluation.num_samples=1"]
    tasks = [f"--task={tmp_path / name}.jsonnet" for name in ("all", "three")]
    vineppo("evaluate", str(run_dir), *settings)
    output = vineppo("evaluate", str(run_dir), *tasks, *settings)
    folder = "evaluation.temperature=0,evaluation.num_samples=1"
    own, every, three = (
        json.loads((run_dir / "evaluations" / f"{name}{folder}/iter_000008.json").read_text())
        for name in ("", "task=all,", "task=three,")
    )
    assert every["problem_ids"] == [f"jsonl/test/{index}" for index in range(16)]
    assert every["task"]["test_path"] == str(tmp_path / "all.jsonl")
    assert "task" not in own
    differing = {"task", "problem_ids"}
    assert {k: v for k, v in every.items() if k not in differing} == {
        k: v for k, v in own.items() if k not in differing
    }
    assert three["num_correct_P"] == every["num_correct_P"][:3]
    assert output.count("pass@1") == 2
