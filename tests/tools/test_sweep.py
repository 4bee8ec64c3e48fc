"""Sweeps: a bad file starts nothing, what is missing is executed, a failure stops no other run."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from vineppo.cli import main
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.errors import InterruptionError
from vineppo.run_dir import RunDir, strict_json, write_atomic
from vineppo.tools.sweep import load_sweep, run_through

TINY = {
    "num_iterations": 1,
    "rollouts.num_prompts": 2,
    "rollouts.num_samples": 2,
    "credit.num_continuations": 2,
    "optimization.batch_size": 4,
    "optimization.micro_batch_size": 4,
    "task.num_train_problems": 64,
    "task.num_test_problems": 4,
    "evaluation.num_samples": 1,
    "checkpoint.every": 0,
    "logging.wandb_project": None,
}


def entry(name="tiny", seed=1, config="leaf.jsonnet", **settings):
    return {"name": name, "seed": seed, "config": config, "set": settings}


@pytest.fixture
def write(configs, tmp_path):
    """Writes a sweep file beside a config of its own, which is the demo's; gives its path."""
    demo = configs / "recipes/transformers_engine.jsonnet"
    (tmp_path / "leaf.jsonnet").write_text(f"import '{demo}'")

    def write_sweep(*runs, evaluations=(), **others):
        path = tmp_path / "tiny.jsonnet"
        content = {"runs": list(runs), "evaluations": list(evaluations), **others}
        path.write_text(json.dumps(content))
        return path

    return write_sweep


@pytest.fixture
def refusal(capsys, monkeypatch):
    """Runs a sweep that must start no process; gives the one line that it is refused with."""

    def start(*_, **__):
        raise AssertionError("a process was started")

    def run(path, *options):
        monkeypatch.setattr("vineppo.tools.sweep.subprocess.run", start)
        assert main(["sweep", str(path), f"--runs-dir={path.parent}/runs", *options]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        return message.removeprefix("vineppo: ").rstrip().replace(f"{path.parent}/", "")

    return run


def test_the_settings_of_a_run_and_then_those_of_the_command_are_made_in_its_config(write):
    path = write(
        entry("a", 3, **{"sampling.temperature": 0.4, "model.path": "a/b"}),
        entry("b", 3, **{"model.path": "null"}),
        evaluations=[{"evaluation.temperature": 0.2, "evaluation.top_p": 0.5}],
    )
    first, second = load_sweep(str(path), Path("runs"), ["num_iterations=7"])
    assert first.directory == Path("runs/a_seed3")
    assert first.assignments == (
        "name=a", "seed=3", "model.path=a/b", "sampling.temperature=0.4", "num_iterations=7"
    )  # fmt: skip
    assert second.assignments[2] == 'model.path="null"'  # the string
    assert first.num_iterations == 7
    assert first.evaluations == (("evaluation.temperature=0.2", "evaluation.top_p=0.5"),)
    command = f"train {path.parent}/leaf.jsonnet --run-dir runs/a_seed3 --set name=a --set seed=3"
    assert next(first.commands())[:8] == command.split()


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "tiny.jsonnet: runs must not be empty"),
        ([{**entry(), "sed": 1}], "tiny.jsonnet: runs.0.sed: Unexpected keyword argument"),
        ([entry("a/b")], "tiny.jsonnet: runs[0]: config: name: String should match"),
        (
            [entry(), entry("other", **{"sampling.temprature": 1})],
            "tiny.jsonnet: runs[1]: config: unknown key sampling.temprature",
        ),
        (
            [entry(), entry(seed=2), entry(**{"sampling.temperature": 0.5})],
            "tiny.jsonnet: runs[2]: seed 1 of tiny stands there twice",
        ),
        (
            [{**entry(), "set": {"seed": 4}}],
            "tiny.jsonnet: runs[0]: name and seed are keys of the run itself and cannot be set",
        ),
    ],
)  # fmt: skip
def test_a_bad_run_is_one_line_before_anything_starts(write, refusal, runs, message):
    assert refusal(write(*runs)).startswith(message)


def test_a_bad_file_is_one_line(write, tmp_path, refusal):
    path = write(entry(), evaluations=[{"evaluation.temp": 1}])
    assert refusal(path) == (
        "tiny.jsonnet: runs[0] under evaluations: config: unknown key evaluation.temp"
    )
    assert refusal(write(entry()), "--index=1") == "--index must be in 0..0, got 1"
    assert "cannot be set" in refusal(write(entry()), "--set=seed=5")
    path.write_text("{ runs: [")
    assert refusal(path).startswith("jsonnet: STATIC ERROR: tiny.jsonnet:1")
    assert refusal(tmp_path / "no.jsonnet") == "config file not found: no.jsonnet"


def test_the_states_of_runs(write, tmp_path, capsys):
    evaluations = [{"evaluation.temperature": t} for t in (0.25, 0.5)]
    path = write(
        *(entry(seed=seed, num_iterations=4) for seed in range(4)), evaluations=evaluations
    )
    runs = load_sweep(str(path), tmp_path / "runs", [])
    for run in runs[1:]:
        config = load_config(TrainConfig, run.config_path, list(run.assignments))
        write_atomic(run.directory / "config.json", strict_json(to_dict(config)))
        RunDir(run.directory).append_metrics({"iteration": 3})
    for run in runs[2:]:
        (run.directory / "final").mkdir()
        file = run.directory / "evaluations/evaluation.temperature=0.25/iter_000004.json"
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    (file.parents[1] / "evaluation.temperature=0.5").mkdir()
    file.rename(file.parents[1] / "evaluation.temperature=0.5/iter_000004.json")
    assert main(["sweep", str(path), f"--runs-dir={tmp_path}/runs", "--list"]) == 0
    assert [line.split(None, 2)[2] for line in capsys.readouterr().out.splitlines()] == [
        "missing",
        "at iteration 3 of 4",
        "trained, 1 of 2 evaluations",
        "trained, 1 of 2 evaluations",
    ]
    assert [list(run.commands())[-1][-1] for run in runs[2:]] == [
        "evaluation.temperature=0.5",
        "evaluation.temperature=0.25",
    ]


def in_this_process(command: list[str]) -> int:
    assert command[:3] == [sys.executable, "-m", "vineppo.cli"]
    return main(command[3:])


def test_what_is_missing_is_executed_though_another_run_fails(write, tmp_path, capfd, monkeypatch):
    """The first cannot start; the second trains and is evaluated, and is then left alone."""
    path = write(
        entry("broken", **TINY, **{"model.path": "./nowhere"}),
        entry(**TINY),
        evaluations=[{"evaluation.temperature": 0}],
    )
    monkeypatch.setattr("vineppo.tools.sweep.run_through", in_this_process)
    command = ["sweep", str(path), f"--runs-dir={tmp_path}/runs"]
    assert main(command) == 1
    out, err = capfd.readouterr()
    assert "model directory not found: ./nowhere" in err
    assert err.endswith("1 of 2 runs failed:\n0 broken_seed1: train ended with status 2\n")
    assert "[1 of 0..1] vineppo evaluate" in out
    run_dir = tmp_path / "runs/tiny_seed1"
    folder = run_dir / "evaluations" / "evaluation.temperature=0"
    greedy = json.loads((folder / "iter_000001.json").read_text())
    own = RunDir(run_dir).read_evaluation(1)
    assert (greedy["temperature"], own["temperature"]) == (0.0, 1.0)
    before = {file: file.stat().st_mtime_ns for file in run_dir.rglob("*") if file.is_file()}
    assert main([*command, "--index", "1"]) == 0
    assert capfd.readouterr().out == "[1 of 0..1] tiny_seed1: finished already\n"
    assert {f: f.stat().st_mtime_ns for f in run_dir.rglob("*") if f.is_file()} == before
    assert main([*command, "--list"]) == 0
    states = [line.split(None, 2)[2] for line in capfd.readouterr().out.splitlines()]
    assert states == ["missing", "finished"]


OBEDIENT = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path(sys.argv[1]).write_text("told")))
pathlib.Path(sys.argv[1]).write_text("ready")
signal.pause()
"""


def test_a_sweep_that_is_asked_to_end_asks_its_run(tmp_path):
    path, pid = tmp_path / "child", os.getpid()

    def ask():
        while not (path.exists() and path.read_text() == "ready"):
            time.sleep(0.01)
        os.kill(pid, signal.SIGTERM)

    threading.Thread(target=ask, daemon=True).start()
    with pytest.raises(InterruptionError, match="SIGTERM"):
        run_through([sys.executable, "-c", OBEDIENT, str(path)])
    assert path.read_text() == "told"
