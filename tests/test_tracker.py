"""wandb gets the metrics, for real and offline."""

import logging
import os
from dataclasses import replace

import pytest

from vineppo import session
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import LoggingConfig, TrainConfig
from vineppo.errors import UserError
from vineppo.progress import log_to, tracked
from vineppo.run_dir import RunDir
from vineppo.session import is_finished


def test_no_key_of_the_environment_is_written_anywhere(configs, tmp_path, monkeypatch):
    """Neither in config.json, environment.json or train.log, nor in what wandb keeps to sync."""
    names = ("WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY")
    keys = {name: f"{index}c0ffee{'5eed' * 8}1" for index, name in enumerate(names)}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    config = replace(config, logging=LoggingConfig("vineppo-test"))
    run = RunDir.open(tmp_path, to_dict(config))
    with log_to(run.path / "train.log"), tracked(config, run.path) as log:
        logging.getLogger("vineppo").info("started")
        log({"iteration": 1, "loss": 0.5})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"config.json", "environment.json", "train.log"} <= {path.name for path in files}
    assert any(path.suffix == ".wandb" for path in files)
    assert "WANDB_SERVICE" not in os.environ  # else runs started from here would share it
    contents = b"".join(path.read_bytes() for path in files)
    assert b"vineppo-test" in contents
    assert not any(key.encode() in contents for key in keys.values())


def test_wandb_that_is_not_installed_is_a_line(configs, tmp_path, monkeypatch):
    """Asked before a model is loaded."""
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), [])
    with pytest.raises(UserError, match=r"^logging.wandb_project needs the package wandb"):
        is_finished(config, tmp_path / "run")
    assert not list(tmp_path.iterdir())
