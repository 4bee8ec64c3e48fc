"""What wandb, Trackio and TensorBoard are given, by each of them for real and offline."""

import json
import logging
import math
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from vineppo import trackers
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import LoggingConfig, TrainConfig
from vineppo.errors import UserError
from vineppo.progress import log_to
from vineppo.run_dir import RunDir
from vineppo.session import is_finished
from vineppo.trackers import Trackers

# In a process of its own: Trackio reads TRACKIO_DIR when it is imported.
IN_TRACKIO = """
import json, sys
from pathlib import Path
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.trackers import Trackers
config = load_config(TrainConfig, sys.argv[1], [
    "logging.wandb_project=null", "logging.trackio_project=mine"])
for iteration in (0, 1):  # started, and gone on
    with Trackers(config, Path(sys.argv[2]), iteration) as trackers:
        trackers.log({"iteration": iteration + 1, "reward/mean": 0.25 * iteration, "none": None})
        trackers.log_histograms({"values": [0.0, float("nan"), 1.0]}, iteration + 1)
import trackio
(run,) = trackio.Api().runs("mine")
logs = trackio.SQLiteStorage.get_logs("mine", run.name)
print(json.dumps([run.name, run.config["seed"], logs]))
"""


def test_no_key_of_the_environment_is_written_anywhere(configs, tmp_path, monkeypatch):
    """Neither in config.json, environment.json or train.log, nor in what wandb keeps to sync."""
    names = ("WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY")
    keys = {name: f"{index}c0ffee{'5eed' * 8}1" for index, name in enumerate(names)}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    config = replace(config, logging=LoggingConfig("vineppo-test", None, False))
    run = RunDir.open(tmp_path, to_dict(config))
    with log_to(run.path / "train.log"), Trackers(config, run.path, 0) as log:
        logging.getLogger("vineppo").info("started")
        log.log({"iteration": 1, "loss": 0.5})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"config.json", "environment.json", "train.log"} <= {path.name for path in files}
    assert any(path.suffix == ".wandb" for path in files)
    contents = b"".join(path.read_bytes() for path in files)
    assert b"vineppo-test" in contents
    assert not any(key.encode() in contents for key in keys.values())


def test_wandb_histograms_are_of_finite_numbers(configs, tmp_path):
    """A real run, offline. numpy refuses a histogram of NaN, so unfiltered they would raise."""
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), [])
    config = replace(config, logging=LoggingConfig("vineppo-test", None, False))
    arrays = {"mixed": [math.nan, 0.0, 1.0, math.inf, 1.0], "nothing": [math.nan], "empty": []}
    with Trackers(config, tmp_path, 0) as log:
        log.log_histograms(arrays, 1)
        log.log({"iteration": 1, "reward/mean": 0.5})
        log.log({"iteration": 2, "reward/mean": 0.5})  # a step is kept when the next one begins
        (run,) = log._modules
        summary = dict(run.summary)
    assert sum(summary["mixed"]["values"]) == 3
    assert (summary["mixed"]["bins"][0], summary["mixed"]["bins"][-1]) == (0.0, 1.0)
    assert "nothing" not in summary
    assert "empty" not in summary
    assert summary["reward/mean"] == 0.5
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert "WANDB_SERVICE" not in os.environ  # else runs started from here would share it


def test_without_a_project_nothing_is_logged(configs, tmp_path):
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), [])
    with Trackers(replace(config, logging=LoggingConfig(None, None, False)), tmp_path, 0) as log:
        log.log_histograms({"x": [1.0]}, 1)
    assert not list(tmp_path.iterdir())


def test_a_run_that_goes_on_is_one_run_of_trackio(configs, tmp_path):
    config = str(configs / "demo_ppo.jsonnet")
    done = subprocess.run(
        [sys.executable, "-c", IN_TRACKIO, config, str(tmp_path)],
        env={**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("["))
    name, seed, logs = json.loads(line)
    assert name.startswith("demo_ppo_")
    assert seed == 1
    rewards = [(log["step"], log["reward/mean"]) for log in logs if "reward/mean" in log]
    assert rewards == [(1, 0.0), (2, 0.25)]
    histograms = [log["values"] for log in logs if "values" in log]
    assert [sum(histogram["values"]) for histogram in histograms] == [2, 2]


def test_tensorboard_forgets_what_a_killed_run_does_again(configs, tmp_path):
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), [])
    config = replace(config, logging=LoggingConfig(None, None, True))
    for start, reward in ((0, 0.25), (1, 0.75)):  # killed in its third iteration, saved after one
        with Trackers(config, tmp_path, start) as trackers:
            for iteration in (start + 1, start + 2):
                trackers.log({"iteration": iteration, "reward/mean": reward, "none": None})
                trackers.log_histograms({"values": [0.0, math.nan, 1.0]}, iteration)
    events = EventAccumulator(str(tmp_path / "tensorboard"), {"histograms": 0}).Reload()
    rewards = [(event.step, event.value) for event in events.Scalars("reward/mean")]
    assert rewards == [(1, 0.25), (2, 0.75), (3, 0.75)]
    assert [event.histogram_value.num for event in events.Histograms("values")] == [2, 2, 2]
    assert "none" not in events.Tags()["scalars"]


def test_a_tracker_that_is_not_installed_is_a_line(configs, tmp_path, monkeypatch):
    """Asked before a model is loaded."""
    monkeypatch.setattr(
        trackers, "find_spec", lambda name: None if name == "trackio" else find_spec(name)
    )
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), [])
    config = replace(config, logging=LoggingConfig(None, "mine", False))
    with pytest.raises(UserError, match=r"^logging.trackio_project needs the package trackio"):
        is_finished(config, tmp_path / "run")
    assert not list(tmp_path.iterdir())
