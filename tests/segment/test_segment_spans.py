"""Spans partition the tokens whatever the cuts, and every segmenter keeps to it."""

import doctest
import importlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vineppo.config.schema import (
    CutpointsSegmenter,
    LinesSegmenter,
    MathSegmenter,
    MergedSegmenter,
    PythonSegmenter,
    TokensSegmenter,
    TurnsSegmenter,
)
from vineppo.errors import UserError
from vineppo.segment import SEGMENTERS, build_segmenter
from vineppo.segment.token_texts import spans_from_cuts
from vineppo.types import StepSpan

CONFIGS = [
    LinesSegmenter("lines"),
    MathSegmenter("math", max_formula_chars=10),
    TokensSegmenter("tokens", num_tokens=3),
    CutpointsSegmenter("cutpoints", max_prob=0.9, num_cutpoints=2),
    MergedSegmenter("merged", 0.9, LinesSegmenter("lines")),
    PythonSegmenter("python", str(Path(__file__).parent / "own_cuts.py")),
]
PIECES = st.lists(
    st.sampled_from(
        ["", "a", "B", " ", "\n", ". ", "$", "$$", "\\[", "\\]", "=", "####", "😀", "\\"]
    )
    | st.text(max_size=4)
)


def assert_partition(spans_S, num_tokens):
    assert [t for span in spans_S for t in range(span.start, span.end)] == list(range(num_tokens))
    assert all(span.start < span.end for span in spans_S)


def test_the_configs_here_are_all_the_registered_ones():
    of_texts = set(SEGMENTERS) - {TurnsSegmenter}  # whose steps are the environment's
    assert {type(config) for config in CONFIGS} == of_texts


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
@given(token_texts_T=PIECES, data=st.data())
def test_every_segmenter_partitions_any_tokens(config, token_texts_T, data):
    length = len(token_texts_T)
    logprobs_T = data.draw(st.lists(st.floats(-3, 0), min_size=length, max_size=length))
    assert_partition(build_segmenter(config)(token_texts_T, logprobs_T), length)


@given(token_texts_T=PIECES, cuts=st.lists(st.integers(0, 60)).map(sorted))
def test_any_ascending_cuts_give_a_partition(token_texts_T, cuts):
    assert_partition(spans_from_cuts(token_texts_T, cuts), len(token_texts_T))


@given(text=st.text(alphabet="ab\n.= ", min_size=1), data=st.data())
def test_with_one_token_a_character_steps_begin_exactly_at_the_cuts(text, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text)))))
    starts = [span.start for span in spans_from_cuts([*text, "</s>"], cuts)]
    assert starts == [0] + [cut for cut in cuts if cut < len(text)]


def test_a_token_that_straddles_a_cut_stays_with_the_step_before():
    # "ab|c|de" cut at 3 (after c) and at 4 (inside "de"): the second cut falls to the end token,
    # which is no step by itself.
    assert spans_from_cuts(["ab", "c", "de", "</s>"], [3, 4]) == (StepSpan(0, 2), StepSpan(2, 4))
    assert spans_from_cuts(["ab", "c", "de", "</s>"], [1]) == (StepSpan(0, 1), StepSpan(1, 4))


def test_a_character_of_several_tokens_is_never_taken_apart():
    pieces = ["a", "\n", "", "", "😀", "b", "</s>"]
    assert spans_from_cuts(pieces, [2]) == (StepSpan(0, 2), StepSpan(2, 7))


def test_the_end_token_never_is_a_step_but_a_lone_token_is():
    assert spans_from_cuts(["a", "\n", "</s>"], [2]) == (StepSpan(0, 3),)
    assert spans_from_cuts(["</s>"], [0]) == (StepSpan(0, 1),)
    assert spans_from_cuts([], [0, 5]) == ()


def test_tokens_are_counted_from_the_start():
    segment = build_segmenter(TokensSegmenter("tokens", num_tokens=1))
    assert segment(["a", "", "</s>"]) == (StepSpan(0, 1), StepSpan(1, 2), StepSpan(2, 3))


def test_steps_of_cutpoints_begin_with_one():
    """Probabilities 0.5 and 1; the end token is no step by itself, though it is a cutpoint."""
    segment = build_segmenter(CutpointsSegmenter("cutpoints", max_prob=0.9, num_cutpoints=1))
    assert segment(["a", "b", "c", "</s>"], [-0.7, 0.0, -0.7, -0.7]) == (
        StepSpan(0, 2), StepSpan(2, 4),
    )  # fmt: skip
    assert segment(["a", "b", "</s>"], [0.0, 0.0, 0.0]) == (StepSpan(0, 3),)
    with pytest.raises(UserError, match="needs log-probabilities"):
        segment(["a"])


def test_a_sure_step_joins_the_next():
    """Lines of two tokens; a single doubtful token is enough for a step."""
    segment = build_segmenter(MergedSegmenter("merged", 0.9, LinesSegmenter("lines")))
    lines = ["a", "\n"] * 4
    assert segment(lines, [0, 0, 0, -0.7, 0, 0, -0.7, 0]) == (StepSpan(0, 4), StepSpan(4, 8))
    assert segment(lines, [-0.7] * 8) == build_segmenter(LinesSegmenter("lines"))(lines)
    assert segment(lines, [0.0] * 8) == (StepSpan(0, 8),)
    with pytest.raises(UserError, match="'merged' needs log-probabilities"):
        segment(lines)


@pytest.mark.parametrize("name", ["", ".token_texts", ".math", ".latex"])
def test_the_examples_of_the_docstrings_hold(name):
    result = doctest.testmod(importlib.import_module(f"vineppo.segment{name}"))
    assert result.attempted > 0
    assert result.failed == 0
