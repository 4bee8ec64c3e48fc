"""The GSM8K rule: lines, blank lines and the answer line."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vineppo.segment import LinesSegmenter

GSM8K = Path(__file__).resolve().parents[3] / "shared" / "data" / "gsm8k" / "test.jsonl"


def parts(text):
    edges = [0, *LinesSegmenter("lines").cuts(text), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\nc", ["a\n", "b\n", "c"]),
        ("a\n\n \t\n\nb", ["a\n\n \t\n\n", "b"]),
        ("\n\na\nb\n\n", ["\n\na\n", "b\n\n"]),
        ("a\n  b", ["a\n", "  b"]),
        ("a\nb\n#### 7", ["a\n", "b\n#### 7"]),
        ("a\n\n #### 7\nmore", ["a\n\n #### 7\n", "more"]),
        ("#### 7", ["#### 7"]),
        ("a ### b\n## c", ["a ### b\n", "## c"]),
        ("\n \n", ["\n \n"]),
        ("", [""]),
    ],
)
def test_lines(text, expected):
    assert parts(text) == expected


@given(st.text(alphabet="a \n\t#"))
def test_no_step_is_blank_and_none_begins_with_the_answer_mark(text):
    if len(parts(text)) > 1:
        assert all(part.strip() for part in parts(text))
        assert not any(part.lstrip(" \t").startswith("####") for part in parts(text)[1:])
