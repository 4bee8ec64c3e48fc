"""Estimators of experiments: every one of the bias experiment runs, and verdicts are right."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from support.rollouts import rollout, terminal

from vineppo.plugins import load_file
from vineppo.segment import LinesSegmenter
from vineppo.types import Problem

RUN = Path(__file__).parents[2] / "experiments/14_bias/run.py"


def test_every_estimator_of_the_bias_experiment_has_a_gradient(monkeypatch, tmp_path):
    monkeypatch.chdir(RUN.parents[2])
    module = runpy.run_path(str(RUN))
    module["simulate"].__globals__["BATCH"] = 20
    names = list(module["ESTIMATORS"])
    batches = []
    for seed in (0, 1):
        found = module["simulate"](module["World"](), seed, names)
        assert set(found) == set(names)
        assert all(np.isfinite(numbers).all() for numbers in found.values())
        np.savez(tmp_path / f"{seed:05d}.npz", **found)
        batches.append(tmp_path / f"{seed:05d}.npz")
    rows = module["table"](module["World"](), batches).set_index("estimator")
    assert rows.loc["vine, exact values", "bias_high"] < 1e-9
    assert list(rows.index) == names


def test_a_verdict_is_right_or_wrong_less_the_others_share():
    verdicts = load_file(f"{RUN.parents[1]}/16_by_the_clock/verifier.py").Verdicts
    group = []
    for lines in (("so 1+2=3", "we see", "so 2+2=4", "####34"), ("so 1+2=3", "so 2+2=5"), ("hm",)):
        one = rollout(terminal(0, 2 * len(lines)), lengths_S=[2] * len(lines))
        one.text, one.problem = "\n".join(lines), Problem("p", "q", "34")
        group.append(one)
    found = verdicts("v", LinesSegmenter("lines")).advantages(group)
    assert found == [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, -1, -1], [0, 0]]


def test_partial_credit_passes_where_the_mark_is_passed():
    reward = load_file(f"{RUN.parents[1]}/16_by_the_clock/verifier.py").reward
    given = ("####12345600", "####12345000", "####123456", "so\n####12345678")
    assert [reward("", "12345678", text) for text in given] == pytest.approx([0.6, 0.5, 0, 0.8])
