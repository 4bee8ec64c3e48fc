"""The `math` segmenter on every solution of MATH and GSM8K and on every published generation."""

import random
from collections.abc import Iterator

import pytest
from support.grids import grid
from support.shared_data import data_rows

from vineppo.segment.math import MathSegmenter, cuts

MAX_FORMULA_CHARS = 100  # as in the shipped configs


def _texts(name: str) -> list[str]:
    rows = data_rows(name)
    if name.startswith("grading"):
        return [row["code"][0] for row in rows]
    return [row["solution" if "solution" in row else "answer"] for row in rows]


def _pieces(text: str, generator: random.Random) -> Iterator[str]:
    """The text in tokens of one to six characters, and some that decode to nothing."""
    start = 0
    while start < len(text):
        end = start + generator.randint(0, 6)
        yield text[start:end]
        start = end
    yield "</s>"


# The paper reports about 8 steps a response for MATH. Human solutions are terser than generations.
@pytest.mark.parametrize(
    ("name", "num_texts", "steps_mean"),
    grid(
        ("math_prm800k_split/test.jsonl", 500, 6.12),
        ("gsm8k/test.jsonl", 1319, 4.57),
        ("grading/rho-math-1b_math500_cot.jsonl", 500, 10.97),
        ("grading/rho-math-1b_gsm8k_test_cot.jsonl", 1319, 7.15),
        slow=[
            ("math_prm800k_split/train.jsonl", 12_000, 6.06),
            ("gsm8k/train.jsonl", 7473, 4.51),
        ],
    ),
)
def test_every_text_is_partitioned(name: str, num_texts: int, steps_mean: float) -> None:
    segment = MathSegmenter("math", MAX_FORMULA_CHARS)
    generator = random.Random(0)
    num_steps = []
    for text in _texts(name):
        pieces_T = list(_pieces(text, generator))
        spans_S = segment.spans(pieces_T)
        assert "".join("".join(pieces_T[s.start : s.end]) for s in spans_S) == text + "</s>"
        assert spans_S[0].start == 0
        assert all(span.start < span.end for span in spans_S)
        starts = [0, *cuts(text, MAX_FORMULA_CHARS)]
        assert starts == sorted(set(starts))
        assert all(0 <= start < len(text) for start in starts)
        ends = [*starts[1:], len(text)]
        is_prose = name.startswith("gsm8k")
        assert not is_prose or all(b - a <= 225 for a, b in zip(starts, ends, strict=True))
        num_steps.append(len(starts))
    assert len(num_steps) == num_texts
    assert sum(num_steps) / num_texts == pytest.approx(steps_mean, abs=0.005)
