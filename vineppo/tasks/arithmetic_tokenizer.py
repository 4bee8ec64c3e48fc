"""The tokenizer of the generated tasks: one token a character, or a word with its space."""

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

_SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
_TOKENS = (*"0123456789+-*=?\n", "####")


def build_tokenizer(words: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """21 tokens: the tasks' characters, "####", and <pad> <bos> <eos> <unk>; then a task's `words`.

    With special tokens, a text begins with <bos>; nothing is put behind it. Decoding gives back
    the very text. Any other character becomes <unk>, so that a foreign text shows as such.

    `tokenizer("4+6?")["input_ids"]` has the 5 tokens <bos> 4 + 6 ?.
    """
    tokens = (*_SPECIAL_TOKENS, *_TOKENS, *words)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = Split(
        Regex(r"####|[a-z]+ ?|[\s\S]" if words else r"####|[\s\S]"), behavior="isolated"
    )
    backend.decoder = decoders.Fuse()
    backend.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", vocabulary["<bos>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )
