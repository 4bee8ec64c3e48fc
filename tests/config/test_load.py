"""Every mistake in a config is one line that names the key."""

import json
from pathlib import Path

import pytest

from vineppo.config.load import evaluate_jsonnet, load_config, parse_config, to_dict
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError
from vineppo.tools.reward_model.config import RewardModelConfig

CONFIGS = Path(__file__).parents[2] / "configs"
LEAVES = sorted(
    str(path.relative_to(CONFIGS).with_suffix(""))
    for folder in (CONFIGS, CONFIGS / "paper", CONFIGS / "modern", CONFIGS / "recipes")
    for path in folder.glob("*.jsonnet")
)


def kind_of(leaf):
    if leaf.startswith("reward_model"):
        return RewardModelConfig
    return SftConfig if "sft" in leaf or "self_training" in leaf else TrainConfig


def load(configs, *assignments):
    return load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), list(assignments))


@pytest.mark.parametrize("leaf", LEAVES)
def test_every_leaf_loads_and_round_trips(configs, leaf):
    kind = kind_of(leaf)
    config = load_config(kind, str(configs / f"{leaf}.jsonnet"), [])
    assert parse_config(kind, json.loads(json.dumps(to_dict(config)))) == config
    assert config.name == leaf.rpartition("/")[2]  # which names its run directory
    if kind is TrainConfig:
        bound = 0.1 if config.model.dtype == "float32" else 3
        assert config.optimization.max_logprob_gap == bound


def test_names_of_runs_are_unique():
    assert len({leaf.rpartition("/")[2] for leaf in LEAVES}) == len(LEAVES)


LOSSES = sorted(evaluate_jsonnet(str(CONFIGS / "lib/loss.libsonnet")))


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_goes_over_grpo_and_changes_it(configs, tmp_path, loss):
    path = tmp_path / "config.jsonnet"
    grpo, pieces = configs / "demo_grpo.jsonnet", configs / "lib/loss.libsonnet"
    path.write_text(f"(import '{grpo}') + (import '{pieces}').{loss}")
    plain = load_config(TrainConfig, str(grpo), [])
    found = load_config(TrainConfig, str(path), [])
    assert found != plain
    assert (found.sampling, found.rollouts) == (plain.sampling, plain.rollouts)


def test_set_reads_json_and_falls_back_to_a_string(configs):
    config = load(configs, "seed=7", "name=try", "optimization.learning_rate=1e-4")
    assert (config.seed, config.name, config.optimization.learning_rate) == (7, "try", 1e-4)


def test_set_can_switch_a_kind(configs):
    config = load(configs, 'credit.segmenter={"kind": "tokens", "num_tokens": 5}')
    assert config.credit.segmenter.num_tokens == 5


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("optimization.learning_rte=1", "config: unknown key optimization.learning_rte"),
        ("seed=1.5", "config: seed: Input should be a valid integer, got 1.5"),
        ("model.dtype=float8",
         "config: model.dtype: Input should be 'float32' or 'bfloat16', got \"float8\""),
        ("name=a/b",
         "config: name: String should match pattern '^[A-Za-z0-9][A-Za-z0-9._-]*$', got \"a/b\""),
        ("sampling.top_p=2",
         "config: sampling.top_p: Input should be less than or equal to 1, got 2"),
        ("task.kind=chess", "config: task: kind must be one of 'gsm8k', 'math', "
         "'arithmetic', 'svamp', 'olympiadbench', 'countdown', 'jsonl', 'reasoning_gym', 'worded', "
         "'verifiers', or "
         "'FILE.py:Class', got 'chess'"),
        ("task.prompt.chat_template_kwargs={}", "config: unknown key "
         'task.prompt.chat_template_kwargs (task.prompt.kind is "template")'),
        ("model.gradient_checkpointing=x",
         'config: model.gradient_checkpointing: Input should be a valid boolean, got "x"'),
        ("credit.segmenter={}", "config: missing key credit.segmenter.kind"),
        ('critic={"kind": "shared"}', "config: missing key critic.coef"),
        ("credit.kind.x=1", '--set credit.kind.x: credit.kind must be a table of keys, got "vine"'),
        ("seed", "--set must be dotted.key=value, got 'seed'"),
    ],
)  # fmt: skip
def test_wrong_keys_types_and_values(configs, assignment, message):
    with pytest.raises(UserError) as error:
        load(configs, assignment)
    assert str(error.value) == message


def test_missing_key_names_it(configs):
    resolved = to_dict(load(configs))
    del resolved["optimization"]["micro_batch_size"]
    with pytest.raises(UserError, match=r"^config: missing key optimization\.micro_batch_size$"):
        parse_config(TrainConfig, resolved)


def test_missing_file():
    with pytest.raises(UserError, match=r"^config file not found: nowhere\.jsonnet$"):
        load_config(TrainConfig, "nowhere.jsonnet", [])


@pytest.mark.parametrize(
    "text", ["{\n a: }", "{\n a: error 'x' }", "{\n a: import 'no.libsonnet' }"]
)
def test_jsonnet_errors_are_one_line_with_file_and_line_number(tmp_path, text):
    path = tmp_path / "broken.jsonnet"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_config(TrainConfig, str(path), [])
    assert f"{path}:2:" in str(error.value)
