"""Mistakes of the user: one clear line on stderr, exit status 2, before anything heavy starts."""

import json
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from vineppo import cli
from vineppo.cli import main
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.models import ASSETS, load_model
from vineppo.run_dir import RunDir

BATCHES_OF_TWO = ("optimization.batch_size=2", "optimization.micro_batch_size=2")
ROWS = [{"q": "1+1", "a": "2"}, {"q": "2+2", "a": "4"}]


def jsonl(path: Path, rows) -> Path:
    path.write_text(
        "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    )
    return path


@pytest.fixture
def fails(configs, tmp_path, capsys):
    """Runs the demo config with assignments; gives the one line that it fails with."""

    def run(*assignments: str, config: str = "demo_vineppo.jsonnet"):
        small = "task.num_train_problems=64"  # fewer problems to draw and to encode
        options = [f"--set={assignment}" for assignment in (small, *assignments)]
        assert main(["train", str(configs / config), f"--run-dir={tmp_path}/run", *options]) == 2
        message = capsys.readouterr().err
        assert message.startswith("vineppo: ")
        assert message.count("\n") == 1
        return message

    return run


def jsonl_task(configs, train: Path, test: Path) -> str:
    task = to_dict(load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), []))["task"]
    common = {
        key: task[key]
        for key in ("prompt", "too_long", "response_template", "grading", "environment")
    }
    fields = {"question_field": "q", "answer_field": "a", "solution_field": None, "id_field": None}
    paths = {"train_path": str(train), "test_path": str(test), "num_test_problems": None}
    return "task=" + json.dumps({"kind": "jsonl", **common, **paths, **fields})


@pytest.mark.parametrize(
    ("train", "test", "assignments", "message"),
    [
        ([*ROWS, '{"q": "3+3", \n'], ROWS, (), "train.jsonl: row 3"),
        (ROWS, [], (), "test.jsonl"),
        (ROWS, None, (), "test.jsonl"),
        # Found before a model is loaded.
        (ROWS, ROWS, ("model.path=nowhere",),
         "rollouts.num_prompts must be at most the number of train problems, 2, got 32"),
        ([*ROWS, {"q": "1" * 500, "a": "2"}], ROWS,
         ("rollouts.num_prompts=3", "task.too_long=leave_out", *BATCHES_OF_TWO),
         "must be at most the number of train problems, 2, got 3"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit(fails, configs, tmp_path, train, test, assignments, message):
    paths = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    for path, rows in zip(paths, (train, test), strict=True):
        if rows is not None:
            jsonl(path, rows)
    assert message in fails(jsonl_task(configs, *paths), *assignments)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("engine.max_model_len=512", "must be at most the model's 256 positions, got 512"),
        ("engine.max_model_len=66", "at most engine.max_model_len - sampling.max_tokens = 2"),
        ("model.path=./nowhere", "model directory not found: ./nowhere"),
        ("model.path=embedded:chess", "embedded:arithmetic_short"),
        ("model.path=nobody/nothing", "model nobody/nothing cannot be loaded"),
    ],
)
def test_a_failed_start_leaves_no_run_behind(fails, tmp_path, assignment, message):
    assert message in fails(assignment)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", None, "model MODEL cannot be loaded: Error no file named model"),
        ("config.json", None, "model MODEL cannot be loaded: Unrecognized model"),
        ("model.safetensors", b"no weights", "model MODEL cannot be loaded"),
        ("tokenizer.json", b"{}", "model MODEL cannot be loaded"),
        ("generation_config.json", b'{"eos_token_id": 99}',
         "the end-of-sequence id 99 must be one of the tokenizer's 21"),
    ],
)  # fmt: skip
def test_damaged_models(fails, tmp_path, name, content, message):
    model = tmp_path / "model"
    shutil.copytree(ASSETS / "arithmetic_short", model)
    (model / name).unlink() if content is None else (model / name).write_bytes(content)
    assert message.replace("MODEL", str(model)) in fails(f"model.path={model}")


def test_weights_that_lack_a_matrix_are_refused_not_drawn_at_random(fails, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(ASSETS / "arithmetic_short", model)
    weights = load_file(model / "model.safetensors")
    del weights["model.layers.1.self_attn.q_proj.weight"]
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    message = fails(f"model.path={model}")
    assert f"model {model} lacks the weights model.layers.1.self_attn.q_proj.weight" in message


def test_pickled_weights_are_read_where_asked_alone(fails, tmp_path, monkeypatch):
    model = tmp_path / "model"
    shutil.copytree(ASSETS / "arithmetic_short", model)
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    torch.save(weights, model / "pytorch_model.bin")
    message = fails(f"model.path={model}")
    assert "model.path must have its weights in *.safetensors, got pickles (*.bin) in" in message
    monkeypatch.setenv("VINEPPO_ALLOW_PICKLE", "1")
    found = load_model(str(model), "float32", "sdpa").model.state_dict()
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())


def test_what_every_rank_finds_the_main_one_says(configs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, "MAIN_RANK_LIMIT_S", 0.0)
    config = str(configs / "demo_vineppo.jsonnet")
    for rank, num_lines in (("0", 1), ("1", 0)):
        monkeypatch.setenv("RANK", rank)
        assert main(["train", config, f"--run-dir={tmp_path}", "--set=sed=1"]) == 2
        assert capsys.readouterr().err.count("\n") == num_lines


def test_another_number_of_processes_is_found_before_a_model_is_loaded(fails, configs, tmp_path):
    """Or the model, which is not there, would be what it fails with."""
    run_dir, nowhere = tmp_path / "run", f"model.path={tmp_path / 'nowhere'}"
    options = ["--set=task.num_train_problems=64", f"--set={nowhere}"]
    config = load_config(
        TrainConfig,
        str(configs / "demo_vineppo.jsonnet"),
        [option.removeprefix("--set=") for option in options],
    )
    checkpoint = RunDir.open(run_dir, to_dict(config)).checkpoint_path(2)
    checkpoint.mkdir(parents=True)
    state = {"iteration": 2, "elapsed_s": 1.0, "metrics": {}, "kl_coef": 0.0, "num_ranks": 4}
    (checkpoint / "state.json").write_text(json.dumps(state))
    assert "must be resumed by 4 processes, which wrote it, got 1" in fails(nowhere)
    assert "holds a run of another config: seed is" in fails(nowhere, "seed=77")


def foreign_model(directory: Path) -> Path:
    """The embedded model with one more token in its tokenizer, and weights that cannot be read."""
    shutil.copytree(ASSETS / "arithmetic_short", directory)
    build = json.loads((directory / "tokenizer.json").read_text())
    build["model"]["vocab"]["/"] = len(build["model"]["vocab"])
    (directory / "tokenizer.json").write_text(json.dumps(build))
    (directory / "model.safetensors").write_bytes(b"no weights")
    return directory


def test_a_critic_or_reference_with_another_tokenizer_is_refused_before_a_model_loads(
    fails, tmp_path
):
    """No model could be loaded here: neither the policy's weights nor the others' can be read."""
    other, policy = foreign_model(tmp_path / "other"), tmp_path / "policy"
    shutil.copytree(ASSETS / "arithmetic_short", policy)
    (policy / "model.safetensors").write_bytes(b"no weights")
    message = fails(f"model.path={policy}", f"critic.path={other}", config="demo_ppo.jsonnet")
    assert f"config: critic.path {other} must have the policy's tokenizer" in message
    message = fails(f"model.path={policy}", f"reference.path={other}")
    assert f"config: reference.path {other} must have the policy's tokenizer" in message
    assert not (tmp_path / "run").exists()


def test_dry_run_prints_the_resolved_config(configs, capsys):
    path = str(configs / "demo_vineppo.jsonnet")
    assert main(["train", path, "--dry-run", "--set", "seed=5"]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 5


@pytest.mark.parametrize(("seed", "suffix"), [("", ""), ("2", "_seed2")])
def test_make_demo_trains_each_method_into_a_directory_of_its_own(
    configs, seed, suffix, capsys, monkeypatch
):
    """The recipe's shell commands as dry runs, with `echo` before each."""
    monkeypatch.chdir(configs.parent)
    make = ["make", "--silent", "--dry-run", "demo", f"SEED={seed}", "BIN=echo bin"]
    setup, *recipe = subprocess.check_output(make, text=True).splitlines()
    assert setup.startswith("requirements/setup.sh")
    lines = subprocess.check_output(["sh", "-ec", "\n".join(recipe)], text=True).splitlines()
    *trains, report = [line.split() for line in lines]
    run_dirs = []
    for train in trains:
        assert train.pop(0) == "bin/vineppo"
        assert main([*train, "--dry-run"]) == 0
        config = json.loads(capsys.readouterr().out)
        assert config["seed"] == int(seed or 1)
        run_dirs.append(train[train.index("--run-dir") + 1])
        assert run_dirs[-1] == f"runs/{config['name']}{suffix}"
    assert run_dirs == [f"runs/demo_vineppo{suffix}", f"runs/demo_ppo{suffix}"]
    assert report[:4] == ["bin/python", "-m", "analysis", "report"]
    assert report[4:] == [*run_dirs, "--out", f"runs/demo_report{suffix}"]


def test_a_users_mistake_is_one_line_whatever_it_quotes(capsys):
    assert main(["train", "no\nwhere.jsonnet"]) == 2
    assert capsys.readouterr().err == "vineppo: config file not found: no where.jsonnet\n"


def test_a_reader_that_leaves_ends_a_command_quietly(configs, monkeypatch, capsys):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        assert main(["train", str(configs / "demo_vineppo.jsonnet"), "--dry-run"]) == 1
    assert capsys.readouterr().err == ""


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"vineppo {version('vineppo')}\n"
