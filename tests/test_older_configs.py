"""Runs of before a key was added are read with what they did."""

import json

import pytest

from vineppo.config.load import load_config, parse_config, to_dict
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.run_dir.config import with_added_keys

TASK_KEYS = ("too_long", "environment")
GRADING_KEYS = ("reward_path", "num_matching")


def test_an_older_config_is_that_of_today(configs):
    for leaf in (
        "demo_ppo",
        "demo_vineppo",
        "recipes/transformers_engine",
        "recipes/reward_scorer",
        "recipes/lora",
    ):
        config = load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), [])
        older = json.loads(json.dumps(to_dict(config)))
        for key in TASK_KEYS:
            del older["task"][key]
        for key in GRADING_KEYS:
            del older["task"]["grading"][key]
        if older["model"]["lora"]:
            del older["model"]["lora"]["kind"]
        if older["reward_model"]:
            del older["reward_model"]["kind"]
        assert parse_config(TrainConfig, with_added_keys(older)) == config


def test_self_training_had_no_kind(configs):
    config = load_config(SftConfig, str(configs / "recipes/self_training.jsonnet"), [])
    older = json.loads(json.dumps(to_dict(config)))
    del older["self_training"]["kind"]
    assert parse_config(SftConfig, with_added_keys(older)) == config


def test_continuations_were_of_all_states(configs):
    states = {"kind": "expected", "by": "probability", "probability": 0.5, "floor": 0.1}
    path = str(configs / "credit_short_vineppo.jsonnet")
    config = load_config(TrainConfig, path, [f"credit.states={json.dumps(states)}"])
    older = json.loads(json.dumps(to_dict(config)))
    del older["credit"]["states"]["by"]
    assert parse_config(TrainConfig, with_added_keys(older)) == config
    for leaf in ("credit_short_vineppo", "../experiments/12_causes/vineppo_gae"):
        config = load_config(TrainConfig, str(configs / f"{leaf}.jsonnet"), [])
        older = json.loads(json.dumps(to_dict(config)))
        for table in (older["credit"], *older["values"]["predictors"].values()):
            table.pop("states", None)
            table.pop("own_return", None)
        assert parse_config(TrainConfig, with_added_keys(older)) == config


def test_any_separate_critic_had_a_view(configs):
    config = load_config(
        TrainConfig, str(configs / "../experiments/12_causes/ppo_vine.jsonnet"), []
    )
    older = json.loads(json.dumps(to_dict(config)))
    older["values"]["predictors"]["again"] = dict(older["critic"])
    current = parse_config(TrainConfig, older)
    for table in (older["critic"], older["values"]["predictors"]["again"]):
        table["view"] = None
        assert table.pop("learns_from") is None
        assert table.pop("head_learning_rate") is None
    assert parse_config(TrainConfig, with_added_keys(older)) == current


@pytest.mark.parametrize(
    ("leaf", "table", "older_keys"),
    [
        ("informed", "critic", {"kind": "separate"}),
        ("gae_bootstrapped", "credit", {"kind": "gae", "bootstrap_truncated": True}),
        ("../demo_ppo", "credit", {"bootstrap_truncated": False}),
    ],
)
def test_keys_that_became_kinds(configs, leaf, table, older_keys):
    config = load_config(TrainConfig, str(configs / f"recipes/{leaf}.jsonnet"), [])
    older = json.loads(json.dumps(to_dict(config)))
    older[table] |= older_keys
    assert parse_config(TrainConfig, with_added_keys(older)) == config


@pytest.mark.parametrize(
    ("table", "older", "now"),
    [
        ("logging", {"wandb_project": "mine", "trackio_project": None, "tensorboard": False},
         {"wandb_project": "mine"}),
        ("logging", {"tensorboard": True}, {"tensorboard": True}),  # it asked for something
        ("engine", {"sleep_while_training": "auto"}, {"sleep_while_training": True}),
        ("engine", {"kind": "transformers"}, {"kind": "transformers"}),
        ("credit", {"kind": "gae", "segment_max_prob": None}, {"kind": "gae"}),
        ("credit", {"segment_max_prob": 0.2}, {"segment_max_prob": 0.2}),
    ],
)  # fmt: skip
def test_keys_that_ended_are_left_out_where_they_did_nothing(table, older, now):
    assert with_added_keys({table: older}) == {table: now}
