"""The experiment that measures every estimator's bias runs, on a few problems."""

import runpy
from pathlib import Path

import numpy as np

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
