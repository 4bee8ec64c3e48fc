"""Spans partition the tokens whatever the cuts, and every segmenter keeps to it."""

import doctest
import importlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vineppo.plugins import KINDS, find
from vineppo.recipes.cutpoints import CutpointsSegmenter
from vineppo.recipes.merged import MergedSegmenter
from vineppo.segment import LinesSegmenter, TokensSegmenter, spans_from_cuts
from vineppo.segment.math import MathSegmenter
from vineppo.types import StepSpan

OWN = f"{Path(__file__).parent}/own_cuts.py:FullStops"
CONFIGS = [
    LinesSegmenter("lines"),
    MathSegmenter("math", max_formula_chars=10),
    TokensSegmenter("tokens", num_tokens=3),
    CutpointsSegmenter("cutpoints", max_prob=0.9, num_cutpoints=2),
    MergedSegmenter("merged", LinesSegmenter("lines"), 0.9),
    find("segmenter", OWN)(OWN),
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
    of_texts = set(KINDS["segmenter"]) - {"turns"}  # whose steps are the environment's
    assert {config.kind for config in CONFIGS} == {*of_texts, OWN}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
@given(token_texts_T=PIECES, data=st.data())
def test_every_segmenter_partitions_any_tokens(config, token_texts_T, data):
    length = len(token_texts_T)
    logprobs_T = data.draw(st.lists(st.floats(-3, 0), min_size=length, max_size=length))
    assert_partition(config.spans(token_texts_T, logprobs_T), length)


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


def test_the_end_token_never_is_a_step_but_a_lone_token_is():
    assert spans_from_cuts(["a", "\n", "</s>"], [2]) == (StepSpan(0, 3),)
    assert spans_from_cuts(["</s>"], [0]) == (StepSpan(0, 1),)
    assert spans_from_cuts([], [0, 5]) == ()


def test_tokens_are_counted_from_the_start():
    segment = TokensSegmenter("tokens", num_tokens=1)
    assert segment.spans(["a", "", "</s>"]) == (StepSpan(0, 1), StepSpan(1, 2), StepSpan(2, 3))


@pytest.mark.parametrize(
    "name",
    ["segment", "segment.math", "segment.latex", "recipes.cutpoints"],
)
def test_the_examples_of_the_docstrings_hold(name):
    result = doctest.testmod(importlib.import_module(f"vineppo.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
