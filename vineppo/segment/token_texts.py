"""The piece of text that each sampled token contributes."""

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from vineppo.errors import UserError


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Text pieces of `ids` under a Hugging Face `tokenizer`, special tokens included.

    There is one piece per id. Joined, they are `tokenizer.decode(ids)` without any clean-up,
    whenever that text is complete UTF-8. The text of a character that spans several tokens comes
    with the last of them; the others have "". Bytes that form no character give "" or U+FFFD.
    Nothing is re-tokenised. A sentencepiece tokenizer drops the blank before the first id, as its
    `decode` does; every other blank stays.

    The ids of "a 😀" under a byte-level tokenizer give `["a", " ", "", "", "", "😀"]`. Raises
    `UserError` for a tokenizer without a `tokenizers` backend.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise UserError(
            f"model.path: the tokenizer must be a fast one (tokenizer.json), got "
            f"{type(tokenizer).__name__}"
        )
    return backend_token_texts(backend, ids)


def backend_token_texts(backend: Tokenizer, ids: Sequence[int]) -> list[str]:
    """`token_texts` for a bare `tokenizers.Tokenizer`; about 1 µs a token."""
    pieces = []
    stream = DecodeStream(skip_special_tokens=False)
    for token_id in ids:
        try:
            piece = stream.step(backend, token_id)
        except Exception as error:
            # A byte-fallback decoder reads a run of byte tokens as a whole, so a byte that breaks
            # UTF-8 turns characters that the stream has already given out into U+FFFD.
            if "Invalid prefix" not in str(error):
                raise
            stream = DecodeStream(skip_special_tokens=False)
            piece = stream.step(backend, token_id)
        pieces.append(piece or "")
    return pieces
