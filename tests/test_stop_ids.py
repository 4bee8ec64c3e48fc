"""The ids that end a response, of models that mark the end of a text and of a turn differently."""

import json
import shutil
from types import SimpleNamespace

import pytest

from vineppo.errors import UserError
from vineppo.models import ASSETS, end_of_turn, find_stop_ids, load_model
from vineppo.policy import save_model
from vineppo.recipes.arithmetic import build_tokenizer

TURNS = "{% for m in messages %}{{ m.content }}END\n{% endfor %}"


def tokenizer_with(template):
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    tokenizer.chat_template = template
    return tokenizer


def generation(eos_token_id):
    return SimpleNamespace(eos_token_id=eos_token_id)


def test_a_turn_ends_a_response_too():
    tokenizer = tokenizer_with(TURNS.replace("END", "<turn>"))
    turn = tokenizer.convert_tokens_to_ids("<turn>")
    assert end_of_turn(tokenizer) == turn != tokenizer.eos_token_id
    assert find_stop_ids(generation(None), tokenizer) == (tokenizer.eos_token_id, turn)
    assert find_stop_ids(generation([turn, 3]), tokenizer) == (tokenizer.eos_token_id, turn, 3)


@pytest.mark.parametrize(
    "template",
    [
        None,
        TURNS.replace("END", ""),
        TURNS.replace("END", "7"),
        "{{ raise_exception('no') }}",
        "{{ messages + 1 }}",
    ],
    ids=["none", "a newline", "a text", "one that refuses", "one that fails"],
)
def test_what_is_no_special_token_ends_nothing(template):
    tokenizer = tokenizer_with(template)
    assert end_of_turn(tokenizer) is None
    assert find_stop_ids(generation(None), tokenizer) == (tokenizer.eos_token_id,)


def test_a_model_without_an_end_is_refused():
    tokenizer = tokenizer_with(None)
    tokenizer.eos_token, tokenizer.name_or_path = None, "a model"
    with pytest.raises(UserError, match="a model has no end-of-sequence token"):
        find_stop_ids(generation(None), tokenizer)


@pytest.mark.parametrize(
    "defaults",
    [{"do_sample": True, "temperature": 0.7, "top_k": 20, "repetition_penalty": 1.1},
     {"do_sample": False, "temperature": 0.7}, {"pad_token_id": -1}],
)  # fmt: skip
def test_of_a_generation_config_the_token_ids_alone_are_kept(defaults, tmp_path):
    """Others are not the run's, and some transformers reads and refuses to save."""
    shutil.copytree(ASSETS / "arithmetic_short", tmp_path / "model")
    path = tmp_path / "model/generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [2, 14], "bos_token_id": 1, **defaults}))
    loaded = load_model(str(tmp_path / "model"), "float32", "sdpa")
    assert loaded.engine_model.stop_ids == (2, 14)
    weights = loaded.model.named_parameters(remove_duplicate=False)
    save_model(loaded.model, loaded.tokenizer, weights, tmp_path / "saved")
    saved = json.loads((tmp_path / "saved/generation_config.json").read_text())
    assert saved["eos_token_id"] == [2, 14]
    assert not {"temperature", "top_k", "repetition_penalty"} & saved.keys()
    again = load_model(str(tmp_path / "saved"), "float32", "sdpa")
    assert again.engine_model.stop_ids == (2, 14)
