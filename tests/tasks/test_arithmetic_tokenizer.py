from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.task_configs import arithmetic_config
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.tasks import load_task

ALPHABET = "0123456789+-*=?\n"


@pytest.fixture(scope="module", params=["built", "reloaded"])
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PreTrainedTokenizerBase:
    built = build_tokenizer()
    if request.param == "built":
        return built
    directory: Path = tmp_path_factory.mktemp("tokenizer")
    built.save_pretrained(directory)
    return AutoTokenizer.from_pretrained(directory)


@given(parts=st.lists(st.sampled_from([*ALPHABET, "####"])))
def test_one_token_a_symbol_and_back(tokenizer: PreTrainedTokenizerBase, parts: list[str]) -> None:
    text = "".join(parts)
    ids_T = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids_T) == len(parts)
    assert tokenizer.decode(ids_T) == text
    assert tokenizer.decode(ids_T, skip_special_tokens=True) == text


def test_special_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    ids_T = tokenizer("4+6?")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids_T) == ["<bos>", "4", "+", "6", "?"]
    assert tokenizer.decode(ids_T, skip_special_tokens=True) == "4+6?"
    assert len({tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}) == 3
    assert len(tokenizer) == len(ALPHABET) + len(["####", "<pad>", "<bos>", "<eos>", "<unk>"])
    foreign = tokenizer("4 #", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(foreign) == "4<unk><unk>"


def test_every_problem_is_encoded_without_unk(tokenizer: PreTrainedTokenizerBase) -> None:
    for problem in load_task(arithmetic_config()).train_P:
        ids_T = tokenizer(f"{problem.question}\n{problem.solution}")["input_ids"]
        assert tokenizer.unk_token_id not in ids_T
