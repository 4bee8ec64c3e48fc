"""The text of each sampled token, which segmenters cut into steps, and of a response."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from vineppo.errors import UserError
from vineppo.segment import Segmenter
from vineppo.types import Rollout, StepSpan


def steps_of(rollout: Rollout, segmenter: Segmenter, tokenizer: Any) -> tuple[StepSpan, ...]:
    """The steps of a rollout; with an environment, the turns, each with the answer to it."""
    if rollout.turns:
        edges = [*(turn.start for turn in rollout.turns), len(rollout.response_ids)]
        return tuple(StepSpan(start, end) for start, end in pairwise(edges))
    texts_T = token_texts(tokenizer, rollout.response_ids)
    return segmenter.spans(texts_T, rollout.logprobs_T, rollout.tokens_T.get("entropies"))


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """One text piece per id, special tokens included; about 1 µs a token.

    `tokenizer` is a fast one of Hugging Face, or a bare `tokenizers.Tokenizer`.

    Joined, they are `tokenizer.decode(ids)` without any clean-up, whenever that text is complete
    UTF-8. A character of several tokens comes with the last of them: under a byte-level tokenizer,
    the ids of "a 😀" give `["a", " ", "", "", "", "😀"]`. Bytes that form no character give "" or
    U+FFFD. Raises `UserError` for a tokenizer without a `tokenizers` backend.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise UserError(
            f"model.path: the tokenizer must be a fast one (tokenizer.json), got "
            f"{type(tokenizer).__name__}"
        )
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


@lru_cache(maxsize=4)
def _special_ids(tokenizer: Any) -> frozenset[int]:
    return frozenset(i for i, token in tokenizer.added_tokens_decoder.items() if token.special)


def response_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of a response, by the fast backend, without the special tokens at its ends.

    One between two others is U+FFFD, so that the digits on its sides do not become one number:
    "4<pad>0<eos>" gives "4\ufffd0".
    """
    backend, special = tokenizer.backend_tokenizer, _special_ids(tokenizer)
    kept = [place for place, token_id in enumerate(ids) if token_id not in special]
    if not kept:
        return ""
    first, end = kept[0], kept[-1] + 1
    breaks = [place for place in range(first, end) if ids[place] in special]
    runs = pairwise([first - 1, *breaks, end])
    return "\ufffd".join(backend.decode(ids[before + 1 : after]) for before, after in runs)
