"""Text pieces of real tokenizers: one a token, and together the decoded text."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from vineppo.errors import UserError
from vineppo.segment import token_texts

LINES = ["Hello 😀 world. So 3.14 = x\n", "naïve café 中文 👩‍👩‍👧 e\u0301\n", "  indented\n\n"]


def byte_level():
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["</s>"], show_progress=False
    )
    backend.train_from_iterator(LINES[:1], trainer)
    return backend


def sentencepiece_like():
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)}
    words = ["▁So", "So", "▁x", "a", "▁", "=", "</s>", "中", "\n"]
    vocab |= {word: 256 + index for index, word in enumerate(words)}
    backend = Tokenizer(models.BPE(vocab, [], byte_fallback=True))
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return backend


def characters():
    alphabet = ["</s>", *sorted(set("".join(LINES)))]
    backend = Tokenizer(models.WordLevel({char: i for i, char in enumerate(alphabet)}, "</s>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    return backend


@pytest.mark.parametrize("make", [byte_level, characters])
@pytest.mark.parametrize("text", [*LINES, "".join(LINES)])
def test_the_pieces_are_the_text(make, text):
    backend = make()
    ids = [*backend.encode(text).ids, backend.token_to_id("</s>")]
    pieces = token_texts(PreTrainedTokenizerFast(tokenizer_object=backend), ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text + "</s>"
    assert pieces[-1] == "</s>"


def test_a_character_of_several_tokens_comes_with_the_last():
    backend = byte_level()
    ids = backend.encode("a 中").ids
    assert len(ids) == 5  # "a", " ", and three bytes, none of which was merged
    assert token_texts(backend, ids) == ["a", " ", "", "", "中"]


def test_only_the_very_first_blank_of_a_sentencepiece_text_is_dropped():
    backend = sentencepiece_like()
    words = ["▁So", "\n", "▁So", "▁", "▁x", "=", "</s>"]
    ids = [backend.token_to_id(word) for word in words]
    pieces = token_texts(backend, ids)
    assert pieces == ["So", "\n", " So", " ", " x", "=", "</s>"]
    assert "".join(pieces) == backend.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("make", [byte_level, sentencepiece_like])
def test_any_ids_give_one_piece_each_and_complete_text_whole(make):
    backend = make()
    generator = random.Random(0)
    vocab_size = backend.get_vocab_size()
    num_complete = 0
    for _ in range(2000):
        # Bytes among the ids give broken UTF-8 in most texts; the last three ids are unknown.
        ids = [generator.randrange(generator.choice([128, 128, vocab_size + 3])) for _ in range(6)]
        pieces = token_texts(backend, ids)
        text = backend.decode(ids, skip_special_tokens=False)
        assert len(pieces) == len(ids)
        if "\ufffd" not in text:
            num_complete += 1
            assert "".join(pieces) == text
    assert 100 < num_complete < 1900


def test_broken_bytes_do_not_stop_the_text_after_them():
    backend = sentencepiece_like()
    good = [backend.token_to_id(word) for word in ("▁So", "=", "\n", "a", "=")]
    # 0x41 is given out as "A" before 0xFF turns the run of bytes into no UTF-8 at all.
    pieces = token_texts(backend, [0x41, 0xFF, *good])
    assert pieces[0] == "A"
    assert "".join(pieces).endswith("So=\na=")


def test_a_tokenizer_without_a_fast_backend_is_refused():
    with pytest.raises(UserError, match=r"model\.path: the tokenizer must be a fast one"):
        token_texts(object(), [1])
