"""Rows that differ are counted, wherever they are."""

import pytest
import torch
from safetensors.torch import save_file

from benchmarks.same_results import (
    advantage_difference,
    differing,
    weights_difference,
    weights_of,
)
from vineppo.errors import UserError


def test_rows_that_differ_are_counted():
    before = [{"x": [1]}, {"x": [2]}, {"x": [3]}]
    assert differing(before, before, "x") == 0
    assert differing(before, [{"x": [1]}, {"x": [9]}, {"x": [3]}], "x") == 1
    assert differing(before, before[:1], "x") == 2
    assert differing([], before, "x") == 3


def test_the_greatest_difference_of_an_advantage():
    before = [{"advantages_S": [0.5, -1.0]}, {"advantages_S": [0.25]}]
    after = [{"advantages_S": [0.5, -0.75]}, {"advantages_S": [0.5]}]
    assert advantage_difference(before, after) == 0.25
    assert advantage_difference(before, before) == 0.0


def test_weights_are_read_from_all_shards_and_their_lack_is_named(tmp_path):
    policy = tmp_path / "final" / "policy"
    policy.mkdir(parents=True)
    with pytest.raises(UserError, match=r"final/policy: no weights"):
        weights_of(tmp_path)
    save_file({"a": torch.tensor([3.0])}, policy / "model-00001-of-00002.safetensors")
    save_file({"b": torch.tensor([4.0])}, policy / "model-00002-of-00002.safetensors")
    found = weights_of(tmp_path)
    other = {"a": torch.tensor([3.0]), "b": torch.tensor([4.5])}
    assert weights_difference(found, other) == pytest.approx(0.1)  # of the norm 5
    with pytest.raises(UserError, match="different models"):
        weights_difference(found, {"a": torch.tensor([3.0])})
