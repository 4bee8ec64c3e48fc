"""Text in data is text: what is spelled like a special token there becomes ordinary tokens.

A template's special tokens are control tokens. `as_text` masks their names in a question before a
template takes it in, and `encode` reads a mask as those characters:

    encode(tokenizer, f"<bos>{as_text(tokenizer, '4<eos>?')}")   the ids of <bos> 4 < e o s > ?
"""

from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING

from tokenizers import AddedToken, Tokenizer

from vineppo.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Private-use characters, one a special token: where data names it, and where a template does.
_MASK, _CONTROL = 0x100000, 0x108000


def as_text(tokenizer: "PreTrainedTokenizerBase", text: str) -> str:
    """`text` of a data set with the names of special tokens masked, for `encode`.

    Raises `UserError` where the tokenizer would make a special token of it all the same, or where
    it holds characters of the plane that the masks are from.
    """
    special = _special_tokens(tokenizer)
    if max(text, default="") >= chr(_MASK):
        raise UserError(f"text must have no characters from U+{_MASK:X} on, got {text[:80]!r}")
    masked = text
    for place, (_, token) in enumerate(special):
        masked = masked.replace(token.content, chr(_MASK + place))
    # Text without a token may become <unk>, which is also a special token.
    named = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    control = {i for i, _ in special if i != tokenizer.unk_token_id or i in named}
    found = tokenizer(masked, add_special_tokens=False)["input_ids"]
    if masked != text:
        plain = tokenizer(text, add_special_tokens=False, split_special_tokens=True)
        found = [*found, *plain["input_ids"]]
    if not control.isdisjoint(found):
        raise UserError(
            "text must not hold the name of a special token where the tokenizer cannot read it as "
            f"characters, got {text[:80]!r}"
        )
    return masked


def encode(
    tokenizer: "PreTrainedTokenizerBase", text: str, add_special_tokens: bool = False
) -> tuple[int, ...]:
    """Token ids of `text`: special tokens by name, and what `as_text` masked as characters."""
    if max(text, default="") < chr(_MASK):
        return tuple(tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"])
    twin, control_ids = _twin(tokenizer, len(tokenizer))
    special = _special_tokens(tokenizer)
    for place, (_, token) in enumerate(special):
        text = text.replace(token.content, chr(_CONTROL + place))
    for place, (_, token) in enumerate(special):
        text = text.replace(chr(_MASK + place), token.content)
    ids_T = twin.encode(text, add_special_tokens=add_special_tokens).ids
    return tuple(control_ids.get(token, token) for token in ids_T)


def _special_tokens(tokenizer: "PreTrainedTokenizerBase") -> list[tuple[int, AddedToken]]:
    """By id, the longest names first: one may begin another."""
    added = tokenizer.added_tokens_decoder.items()
    special = [(i, token) for i, token in added if token.special]
    return sorted(special, key=lambda both: -len(both[1].content))


@lru_cache(maxsize=1)
def _twin(tokenizer: "PreTrainedTokenizerBase", _: int) -> tuple[Tokenizer, dict[int, int]]:
    """A tokenizer that reads special tokens by other names alone, and their ids by its ids."""
    # Encoding part by part would not do: some tokenizers treat the start of a text otherwise.
    twin = deepcopy(tokenizer.backend_tokenizer)
    twin.encode_special_tokens = True
    control_ids = {}
    for place, (token_id, token) in enumerate(_special_tokens(tokenizer)):
        name = chr(_CONTROL + place)
        twin.add_tokens(
            [AddedToken(name, lstrip=token.lstrip, rstrip=token.rstrip, normalized=False)]
        )
        control_ids[twin.token_to_id(name)] = token_id
    return twin, control_ids
