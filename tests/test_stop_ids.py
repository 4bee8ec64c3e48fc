"""The ids that end a response, of models that mark the end of a text and of a turn differently."""

from types import SimpleNamespace

import pytest

from vineppo.errors import UserError
from vineppo.models import end_of_turn, find_stop_ids
from vineppo.tasks.arithmetic_tokenizer import build_tokenizer

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
    [None, TURNS.replace("END", ""), TURNS.replace("END", "7"), "{{ raise_exception('no') }}"],
    ids=["none", "a newline", "a text", "one that refuses"],
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
