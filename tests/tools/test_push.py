"""`vineppo push`: what others get of a run, and its model card."""

import json
import shutil
from pathlib import Path
from typing import ClassVar

import huggingface_hub
import pytest
import yaml
from safetensors.torch import load_file

from vineppo.cli import main
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.models import ASSETS, load_model
from vineppo.run_dir import RunDir

SETTINGS = ["model.path=acme/base-1b", "seed=7", "task.num_test_problems=9"]


@pytest.fixture
def run(configs: Path, tmp_path: Path) -> RunDir:
    """A finished run with a critic; its command line holds what nobody else should read."""
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), SETTINGS)
    run = RunDir.open(tmp_path / "run", to_dict(config), {"mine.py": "ab12"})
    environment = run.read_environment() | {"command": ["vineppo", "train", "--token=SECRET"]}
    run.environment_path.write_text(json.dumps(environment))
    for iteration, reward in ((1, 0.5), (2, 0.625)):
        run.append_metrics({"iteration": iteration, "reward/mean": reward})
    for iteration, accuracy in ((0, 0.25), (2, 0.75)):
        run.write_evaluation(iteration, {
            "pass@1": accuracy, "pass@4": 0.875, "num_problems": 9, "samples_per_problem": 4,
            "temperature": 0.35,
        })  # fmt: skip
    for name in ("policy", "critic"):
        shutil.copytree(ASSETS / "arithmetic_short", run.final_path / name)
    (run.path / "train.log").write_text("SECRET")
    return run


def test_a_directory_holds_all_that_others_need(run, tmp_path, capsys):
    place = tmp_path / "out" / "model"
    assert main(["push", str(run.path), "--to", str(place)]) == 0
    assert capsys.readouterr().out == f"pushed {run.path} to {place}\n"
    start = load_file(ASSETS / "arithmetic_short/model.safetensors")
    for folder in (place, place / "critic"):
        weights = load_model(str(folder), "float32", "sdpa").model.state_dict()
        assert all((weights[name] == weight).all() for name, weight in start.items())
    about = place / "run"
    assert {str(file.relative_to(about)) for file in about.rglob("*") if file.is_file()} == {
        "config.json", "metrics.jsonl", "own_files.json",
        "evaluations/iter_000000.json", "evaluations/iter_000002.json",
    }  # fmt: skip
    everything = [file for file in place.rglob("*") if file.is_file()]
    assert not [file for file in everything if b"SECRET" in file.read_bytes()]
    assert {path.name for path in place.parent.iterdir()} == {"model"}


def test_the_card_says_what_trained_how_well_and_how_again(run, tmp_path):
    main(["push", str(run.path), "--to", str(tmp_path / "model")])
    text = (tmp_path / "model" / "README.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert head == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "base_model": "acme/base-1b",
        "tags": ["vineppo", "reinforcement-learning", "gae"],
    }
    for line in (
        "# demo_ppo",
        "A policy after 2 iterations of `vineppo train` (credit: gae).",
        "| 0 | 0.250 | 0.875 (k = 4) | 9 | 0.35 |",
        "| 2 | 0.750 | 0.875 (k = 4) | 9 | 0.35 |",
        "vineppo train run/config.json --run-dir runs/demo_ppo",
        "- needs `mine.py`, which is not here (SHA-256 ab12)",
    ):
        assert line in text, line
    assert f"vineppo {run.read_environment()['packages']['vineppo']}" in text
    assert json.loads((tmp_path / "model/run/config.json").read_text()) == run.read_config()


def test_an_adapters_base_is_named_as_in_the_config(run, tmp_path):
    (run.final_path / "adapter").mkdir()
    made = {"base_model_name_or_path": "/home/somebody/arithmetic_short", "r": 16}
    (run.final_path / "adapter" / "adapter_config.json").write_text(json.dumps(made))
    main(["push", str(run.path), "--to", str(tmp_path / "model")])
    found = json.loads((tmp_path / "model" / "adapter" / "adapter_config.json").read_text())
    assert found == made | {"base_model_name_or_path": "acme/base-1b"}


def test_an_unfinished_run_gives_its_newest_checkpoint(run, tmp_path):
    run.checkpoint_path(1).mkdir(parents=True)
    shutil.rmtree(run.final_path / "critic")
    run.final_path.rename(run.checkpoint_path(2))
    (run.checkpoint_path(2) / "trainer").mkdir()
    (run.checkpoint_path(2) / "state.json").write_text("{}")
    assert main(["push", str(run.path), "--to", str(tmp_path / "model")]) == 0
    assert (tmp_path / "model" / "model.safetensors").exists()
    assert not (tmp_path / "model" / "trainer").exists()
    assert not (tmp_path / "model" / "state.json").exists()


def test_mistakes_are_one_line(run, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    for arguments, line in (
        ([run.path, "--to", tmp_path / "full"], "--to must be a new or empty directory, got "),
        (
            [run.path, "--to", "hub:acme"],
            "--to must be a directory or hub:OWNER/NAME, got hub:acme",
        ),
        ([tmp_path / "full", "--to", tmp_path / "new"], "not a run directory (no config.json)"),
    ):
        assert main(["push", *map(str, arguments)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"vineppo: {line}")
        assert error.count("\n") == 1
    assert (tmp_path / "full" / "thesis.tex").read_text() == "precious"
    shutil.rmtree(run.final_path)
    assert main(["push", str(run.path), "--to", str(tmp_path / "new")]) == 2
    assert "holds no checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


class Hub:
    """A hub's double that notes its requests."""

    asked: ClassVar[list[object]] = []

    def create_repo(self, name, private, exist_ok):
        self.asked.append((name, private, exist_ok))

    def upload_folder(self, repo_id, folder_path, commit_message):
        self.asked.append((repo_id, (folder_path / "README.md").exists(), commit_message))


@pytest.mark.parametrize("options", [[], ["--public"]], ids=["private", "public"])
def test_the_hub_gets_the_folder_and_keeps_it_private(run, monkeypatch, options):
    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    monkeypatch.setattr(Hub, "asked", [])
    assert main(["push", str(run.path), "--to", "hub:acme/mine", *options]) == 0
    created, uploaded = Hub.asked
    assert created == ("acme/mine", not options, True)
    assert uploaded[:2] == ("acme/mine", True)


def test_a_hub_that_refuses_is_one_line(run, capsys):
    """Offline, as all tests are."""
    assert main(["push", str(run.path), "--to", "hub:acme/mine"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("vineppo: --to hub:acme/mine: ")
    assert error.count("\n") == 1
