"""A user's own files: what is refused, and what a run keeps of them."""

import json
import re
from pathlib import Path

import pytest
from support.rollouts import rollout
from support.uncertain import UNCERTAIN

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.credit import token_advantages
from vineppo.errors import UserError
from vineppo.session import is_finished, open_run_dir
from vineppo.tasks.grading import Grader
from vineppo.types import Problem

SEGMENTER = """
from vineppo.segment import TextSegmenter
class Results(TextSegmenter):
    def cuts(self, text): return []
"""
ESTIMATOR = """
from vineppo.credit.vine import ContinuationCredit
class Shrunk(ContinuationCredit):
    def advantages(self, rollouts_G): return {}
"""
PROBLEM = Problem("mine/train/0", "4+6?", "0", None)


@pytest.fixture
def files(tmp_path) -> Path:
    (tmp_path / "brief.py").write_text("def reward(question, answer, response): return 1.0")
    (tmp_path / "results.py").write_text(SEGMENTER)
    (tmp_path / "shrunk.py").write_text(ESTIMATOR.format("[[0.0]]"))
    return tmp_path


@pytest.fixture
def loaded(files, configs):
    """A demo config with the files in it."""
    credit = {
        "kind": f"{files / 'shrunk.py'}:Shrunk",
        "segmenter": {"kind": f"{files / 'results.py'}:Results"},
        "num_continuations": 3,
        "identical_prefixes": "share",
        "states": None,
    }
    return lambda *assignments: load_config(
        TrainConfig,
        str(configs / "demo_vineppo.jsonnet"),
        [f"credit={json.dumps(credit)}", *assignments],
    )


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("class Result: pass", r"no class Results derived from vineppo\.segment\.Segmenter"),
        ("import missing_module", "ModuleNotFoundError: No module named 'missing_module'"),
        ("def cuts(", "SyntaxError"),
        ("raise RuntimeError('one line\\nand another')", "RuntimeError: one line$"),
        (None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_before_anything_starts(code, line, tmp_path, loaded):
    file = tmp_path / "mine.py"
    if code is not None:
        file.write_text(code)
    with pytest.raises(UserError, match=re.escape(str(file)) + ".*" + line):
        loaded(f"credit.segmenter.kind={file}:Results")


def test_a_segmenter_of_entropies_has_whole_models(loaded):
    kind = f"credit.segmenter.kind={UNCERTAIN.kind}"
    loaded(kind, "optimization.zero_stage=2")
    with pytest.raises(UserError, match="zero_stage must be below 3 where steps or cuts go by"):
        loaded(kind, "optimization.zero_stage=3")


NOT_FINITE = "finite numbers, got {} for token 1 of rollout 1"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("[[0.0, 1.0]]", "a list a rollout, 2, got 1"),
        ("[[0.0, 1.0], [0.0]]", "a number a token, 2 for rollout 1, got 1"),
        ("[[0.0, 1.0], [0.0, float('nan')]]", NOT_FINITE.format("nan")),
        ("[[0.0, 1.0], [0.0, float('inf')]]", NOT_FINITE.format("inf")),
    ],
)
def test_advantages_that_cannot_be_used_are_refused(returned, message, tmp_path, loaded):
    file = tmp_path / "mine.py"
    file.write_text(ESTIMATOR.format(returned))
    config = loaded(f"credit.kind={file}:Shrunk").credit
    with pytest.raises(UserError) as refusal:
        token_advantages(config, [rollout([0.0, 1.0]), rollout([0.0, 1.0])])
    assert str(refusal.value) == f"credit.kind '{file}:Shrunk': advantages must return {message}"


def test_a_run_does_not_go_on_with_another_own_file(files, loaded, tmp_path):
    config = loaded()
    open_run_dir(config, tmp_path / "run").append_metrics({"iteration": 1})
    (files / "shrunk.py").write_text(ESTIMATOR.format("[]"))
    with pytest.raises(UserError, match=r"shrunk\.py has changed since the run"):
        open_run_dir(config, tmp_path / "run")
    (tmp_path / "run" / "final").mkdir()
    with pytest.raises(UserError, match=r"shrunk\.py has changed since the run"):
        is_finished(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("return 1 / 0", "ZeroDivisionError"),
        ("raise ValueError('boom\\nand more')", "ValueError: boom and more"),
        ("return float('nan')", "must be a finite number, got nan"),
        # Not in the losses' float32.
        ("return 1e300", "must be a finite number, got 1e\\+300"),
        ("return 'right'", "must be a finite number, got 'right'"),
        ("return '0.5'", "must be a finite number, got '0.5'"),
        ("return b'0.5'", "must be a finite number, got b'0.5'"),
        ("return None", "must be a finite number, got None"),
    ],
)
def test_a_reward_that_raises_ends_the_run(body, line, tmp_path, loaded):
    file = tmp_path / "mine.py"
    file.write_text(f"def reward(question, answer, response):\n    {body}\n")
    config = loaded(f"task.grading.reward_path={file}").task.grading
    with Grader(config) as grader, pytest.raises(UserError, match=f"reward raised .*{line}"):
        grader.submit(PROBLEM, "0", "stop").result()


@pytest.mark.parametrize("body", ["pass", "__import__('time').sleep(1)"])
def test_a_reward_that_hangs_is_counted_as_wrong(body, tmp_path, loaded):
    """After its limit of processor time, or ten times as much by the clock."""
    file = tmp_path / "mine.py"
    file.write_text(f"def reward(question, answer, response):\n    while True: {body}\n")
    limits = (f"task.grading.reward_path={file}", "task.grading.time_limit_s=0.2")
    with Grader(loaded(*limits).task.grading) as grader:
        assert grader.submit(PROBLEM, "0", "stop").result() == 0.0
        assert grader.metrics()["grading/num_timeouts"] == 1.0
