"""Every recipe of `configs/lib/recipes.libsonnet` trains, and changes what plain PPO has."""

import json

import pytest
from support.grids import grid
from support.tiny_models import random_model
from support.training import CONFIGS, NO_WANDB

from vineppo.cli import main
from vineppo.config.load import complete, evaluate_jsonnet, load_config
from vineppo.config.schema import TrainConfig
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.worded import WORDS

SMALL = {
    **NO_WANDB,
    "num_iterations": 2,
    "rollouts.num_prompts": 2,
    "optimization.batch_size": 6,
    "optimization.micro_batch_size": 6,
    "optimization.logprobs_micro_batch_size": 6,
    "seed": 2,  # of which rewards differ in each iteration
    "task.num_train_problems": 8,
    "task.num_test_problems": 1,
    "evaluation.every": 0,
    "evaluation.num_samples": 1,
    "checkpoint.every": 0,
}
SIZES = {"batch_size": 6, "micro_batch_size": 6}
# In the characters of the embedded tokenizer.
YES_NO = {"question": "?", "yes": '"1"', "no": '"0"'}
ASKED = {
    "question": "?", "think_tokens": 3, "think_end": "=", "score_prompt": "", "score_tokens": 1,
    "score_end": "", "score_of": 9,
}  # fmt: skip
OWN = {
    "v05": {f"values.predictors.prior.{key}": value for key, value in (YES_NO | SIZES).items()},
    "generative": {f"values.predictors.judge.{key}": value for key, value in ASKED.items()},
}
# A metric of the recipe's own part, or else of what it changes.
SEEN = {
    "bpco": "critic/explained_variance",
    "decoupled_lambda": "critic/explained_variance",
    "positive_examples": "policy/loss",
    "critic_of": "critic/explained_variance",
    "two_critics": "critic/spread",
    "asyppo": "critic/spread",
    "shrinkage": "values/shrunk_mean/explained_variance",
    "v05": "values/fused/explained_variance",
    "poise": "values/probe/error",
    "generative": "values/judge/brier",
}


# What others of them, or other tests, train as well.
MIXED = ("bpco", "decoupled_lambda", "positive_examples", "two_critics", "generative")


@pytest.fixture(scope="module")
def small_critic(tmp_path_factory):
    """A model a quarter as wide as the policy, with its tokenizer."""
    path = tmp_path_factory.mktemp("critic")
    tokenizer = build_tokenizer(WORDS)
    random_model("LlamaConfig", vocab_size=len(tokenizer)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def leaf(folder, name, small_critic=""):
    """The recipe over PPO on sheets of few steps, without vLLM."""
    piece = f"critic_of('{small_critic}')" if name == "critic_of" else name
    lib = CONFIGS / "lib"
    plain = (
        f"(import '{CONFIGS}/credit_short_ppo.jsonnet')"
        f" + (import '{lib}/hardware.libsonnet').without_vllm + {{ name: '{name}' }}"
    )
    file = folder / f"{name}.jsonnet"
    file.write_text(plain)
    without = evaluate_jsonnet(str(file))
    file.write_text(f"{plain} + (import '{lib}/recipes.libsonnet').{piece}")
    assert evaluate_jsonnet(str(file)) != without, "the piece changes nothing"
    return file


def test_all_are_here(tmp_path):
    file = tmp_path / "names.jsonnet"
    names = f"std.objectFieldsAll(import '{CONFIGS}/lib/recipes.libsonnet')"
    file.write_text(f"{{ names: {names} }}")
    assert set(evaluate_jsonnet(str(file))["names"]) == set(SEEN)
    for name in MIXED:
        load_config(TrainConfig, str(leaf(tmp_path, name)), [])


@pytest.mark.parametrize("name", grid(*(name for name in SEEN if name not in MIXED), slow=MIXED))
def test_it_trains(name, tmp_path, small_critic):
    file, run_dir = str(leaf(tmp_path, name, small_critic)), tmp_path / "run"
    settings = SMALL | OWN.get(name, {})
    if complete(evaluate_jsonnet(file))["critic"] is not None:
        settings |= {f"critic.{key}": value for key, value in SIZES.items()}
    assignments = [f"--set={key}={value}" for key, value in settings.items()]
    assert main(["train", file, f"--run-dir={run_dir}", *assignments]) == 0
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    for row in rows:
        assert isinstance(row[SEEN[name]], float)
        assert row["policy/skipped_updates"] == 0
