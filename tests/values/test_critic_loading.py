"""Where a value model comes from, and what its head starts with."""

import math
import shutil

import pytest
import torch
from support.critics import build_config, sequences, start, values, write_classifier
from support.rollouts import CPU

from vineppo.batching import collate
from vineppo.config.schema import LlamaArchitecture
from vineppo.errors import UserError
from vineppo.models import check_tokenizers, load_model
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.sft import write_new_model
from vineppo.values.heads import ValueHead, check_size, load_value_model

OTHER_SIZE = LlamaArchitecture(
    hidden_size=48,
    intermediate_size=64,
    num_layers=2,
    num_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=128,
)

pytestmark = pytest.mark.usefixtures("sharded")


def load(configs, seed=0, **changes):
    config = build_config(configs, "separate", **changes)
    return load_value_model(config.critic, config.model, seed)


def message_of(configs, path) -> str:
    with pytest.raises(UserError) as found:
        load(configs, critic__path=str(path))
    return str(found.value)


def test_a_new_head_is_normal_with_the_papers_deviation():
    """4,096 weights of N(0, 1/√4097): mean and deviation within 4 standard errors, normal tails."""
    weight = ValueHead(4096, torch.float32, "normal", 3).weight
    deviation = 1 / math.sqrt(4097)
    assert weight.shape == (1, 4096)
    assert abs(weight.mean().item()) < 4 * deviation / math.sqrt(4096)
    assert abs(weight.std().item() / deviation - 1) < 4 / math.sqrt(2 * 4096)
    beyond_two = (weight.abs() > 2 * deviation).float().mean().item()
    assert beyond_two == pytest.approx(0.0455, abs=0.013)


def test_the_head_depends_on_the_runs_seed_alone(configs):
    """The same whatever torch drew before, for either kind of critic; another for another seed."""
    torch.manual_seed(0)
    one = load(configs, seed=5).score.weight
    torch.manual_seed(1)
    torch.rand(17)
    again = load(configs, seed=5).score.weight
    assert torch.equal(one, again)
    assert torch.equal(one, ValueHead(128, torch.float32, "normal", 5).weight)
    other = load(configs, seed=6).score.weight
    assert abs(torch.corrcoef(torch.cat([one, other]))[0, 1].item()) < 0.4


def test_a_causal_model_of_another_size_gets_a_new_head(configs, tmp_path):
    write_new_model(OTHER_SIZE, tmp_path / "model", 1, build_tokenizer())
    config = build_config(configs, "separate", critic__path=str(tmp_path / "model"), seed=4)
    check_tokenizers(config)
    model = load_value_model(config.critic, config.model, 4)
    written = load_model(str(tmp_path / "model"), "float32", "sdpa").model.model.state_dict()
    backbone = model.model.state_dict()
    assert all(torch.equal(backbone[name], written[name]) for name in written)
    assert torch.equal(model.score.weight, ValueHead(48, torch.float32, "normal", 4).weight)
    values_BT = values(start(config), collate(sequences(3), CPU))
    assert values_BT.std() > 0


def test_a_reward_model_keeps_backbone_and_head(configs, tmp_path):
    written = write_classifier(tmp_path).state_dict()
    loaded = load(configs, critic__path=str(tmp_path)).state_dict()
    assert loaded.keys() == written.keys() | {"score.offset"}
    assert loaded["score.offset"] == 0
    assert all(torch.equal(loaded[name], written[name]) for name in written)


def test_a_classifier_of_two_labels_is_refused(configs, tmp_path):
    write_classifier(tmp_path, num_labels=2)
    message = message_of(configs, tmp_path)
    assert message == f"critic.path {tmp_path}: its head must have one label, got 2"


def test_a_reward_model_without_its_head_is_refused(configs, tmp_path):
    """It would silently get HF's random one."""
    classifier = write_classifier(tmp_path)
    weights = {k: x for k, x in classifier.state_dict().items() if not k.startswith("score")}
    classifier.save_pretrained(tmp_path, state_dict=weights)
    assert message_of(configs, tmp_path) == f"critic.path {tmp_path} lacks the weights score.weight"


def test_broken_directories_are_one_line(configs, tmp_path):
    write_classifier(tmp_path / "whole")
    for name, file, content in (
        ("cut", "model.safetensors", (tmp_path / "whole/model.safetensors").read_bytes()[:5000]),
        ("text", "config.json", b"no json"),
        ("unknown", "config.json", b'{"model_type": "no such model"}'),
        ("encoder", "config.json", b'{"model_type": "bert", "hidden_size": 32}'),
    ):
        shutil.copytree(tmp_path / "whole", tmp_path / name)
        (tmp_path / name / file).write_bytes(content)
        assert str(tmp_path / name) in message_of(configs, tmp_path / name), name
    (tmp_path / "empty").mkdir()
    assert "config.json" in message_of(configs, tmp_path / "empty")
    assert "not found" in message_of(configs, tmp_path / "absent")


def test_a_critic_too_small_for_the_policys_ids_or_lengths_is_refused(configs, tmp_path):
    write_new_model(OTHER_SIZE, tmp_path / "model", 1, build_tokenizer())
    path = str(tmp_path / "model")
    model = load(configs, critic__path=path)
    rows, positions = model.config.vocab_size, model.config.max_position_embeddings
    check_size(model, rows, positions)
    with pytest.raises(UserError, match=f"{path}: its embedding must have .* got {rows}"):
        check_size(model, rows + 1, positions)
    with pytest.raises(UserError, match=f"engine.max_model_len = {positions + 1}, got {positions}"):
        check_size(model, rows, positions + 1)
