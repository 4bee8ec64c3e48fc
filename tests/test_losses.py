import math
from itertools import pairwise
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vineppo.config.schema import LossAggregation, MaskedImportance, TruncatedImportance
from vineppo.losses import (
    Totals,
    aggregate,
    clipped_surrogate,
    cross_entropy,
    importance_weights,
    squared_error,
    whiten,
)

KINDS = get_args(LossAggregation)


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual_clip", "loss", "is_clipped"),
    [
        (1.5, 2.0, None, -2.6, True),  # −min(3, 1.3·2): above 1 + clip_high
        (1.5, -2.0, None, 3.0, False),  # a bad token grew likelier: never clipped
        (0.5, 2.0, None, -1.0, False),
        (0.5, -2.0, None, 1.6, True),  # −min(−1, −0.8·2): below 1 − clip_low
        (1.25, 2.0, None, -2.5, False),  # inside the wider upper clip
        (0.75, -2.0, None, 1.6, True),  # outside the narrower lower one
        (4.0, -2.0, 3.0, 6.0, True),  # min(4·2, 3·2)
        (2.9, -2.0, 3.0, 5.8, False),  # below 3
        (0.5, -2.0, 3.0, 1.6, True),  # the ordinary clip
        (4.0, 2.0, 3.0, -2.6, True),  # A > 0: the ordinary clip
        (0.1, 2.0, 3.0, -0.2, False),  # A > 0: no bound, though −0.2 > −6
        (4.0, 0.0, 3.0, 0.0, False),
    ],
)
def test_clipping_at_its_corners(ratio, advantage, dual_clip, loss, is_clipped):
    logprobs = torch.tensor([math.log(ratio)], requires_grad=True)
    advantages = torch.tensor([advantage])
    terms = clipped_surrogate(logprobs, torch.zeros(1), advantages, 0.2, 0.3, dual_clip)
    terms.loss.sum().backward()
    assert terms.loss.item() == pytest.approx(loss)
    assert terms.is_clipped.item() is is_clipped
    # d(−rA)/d log π = −rA where the clip is off, 0 where it is on.
    assert logprobs.grad.item() == pytest.approx(0.0 if is_clipped else -ratio * advantage)


@pytest.mark.parametrize("log_ratio", [-200.0, -90.0, 90.0, 200.0])
@pytest.mark.parametrize("advantage", [2.0, 0.0, -2.0])
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_a_ratio_that_overflows_has_a_finite_loss_and_gradient(log_ratio, advantage, dual_clip):
    logprobs = torch.tensor([log_ratio], requires_grad=True)
    advantages = torch.tensor([advantage])
    terms = clipped_surrogate(logprobs, torch.zeros(1), advantages, 0.2, 0.2, dual_clip)
    terms.loss.sum().backward()
    assert math.isfinite(terms.loss.item())
    assert logprobs.grad.item() == 0
    assert terms.ratio.item() == pytest.approx(math.exp(math.copysign(20, log_ratio)))


# An update of two responses, the second without its last token.
OLD = [[-0.5, -2.0, -0.1, -1.5], [-0.3, -0.7, -1.2, -0.4]]
NEW = [[-0.1, -2.5, -0.3, -1.0], [-1.2, -0.2, -0.9, -0.1]]


def test_importance_weights_are_those_of_others_code():
    """verl's, by tokens and by sequences, truncated at 1.3; oat's of tokens are the same."""
    rows = list(zip(NEW, OLD, strict=True))
    of_tokens = [importance_weights(truncated_at(1.3), new, old) for new, old in rows]
    assert of_tokens[0] == pytest.approx([1.3, 0.606531, 0.818731, 1.3], abs=1e-6)
    assert of_tokens[1][:3] == pytest.approx([0.40657, 1.3, 1.3], abs=1e-6)
    whole = truncated_at(1.3, "sequence")
    assert importance_weights(whole, NEW[0], OLD[0]) == pytest.approx([1.221403] * 4, abs=1e-6)
    found = importance_weights(whole, NEW[1][:3], OLD[1][:3])
    assert found == pytest.approx([0.904837] * 3, abs=1e-6)
    # TRL's (f2cd577), masked to [0.7, 1.2].
    for level, expected in {"token": [0.0] * 3, "sequence": [0.904837] * 3}.items():
        found = importance_weights(masked_to(0.7, 1.2, level), NEW[1][:3], OLD[1][:3])
        assert found == pytest.approx(expected, abs=1e-6)
    kept = importance_weights(masked_to(0.7, 1.2), NEW[0], OLD[0])
    assert kept == pytest.approx([0, 0, 0.818731, 0], abs=1e-6)
    assert importance_weights(masked_to(0.7, 1.2, "sequence"), NEW[0], OLD[0]) == [0.0] * 4


def truncated_at(max_weight, level="token"):
    return TruncatedImportance("truncated", max_weight, level)


def masked_to(min_weight, max_weight, level="token"):
    return MaskedImportance("masked", min_weight, max_weight, level)


def test_importance_weights_of_gaps_whose_exponential_overflows():
    truncated, masked = truncated_at(2.0), masked_to(0.5, 2.0)
    assert importance_weights(truncated, [0.0, -1000.0], [-1000.0, 0.0]) == [2.0, 0.0]
    assert importance_weights(masked, [0.0, -1000.0], [-1000.0, 0.0]) == [0.0, 0.0]
    long = truncated_at(2.0, "sequence")
    assert importance_weights(long, [0.0] * 9, [-1000.0] * 9) == [2.0] * 9
    assert importance_weights(long, [-1000.0] * 9, [0.0] * 9) == [0.0] * 9


def test_importance_weights_at_their_corners():
    """Ratios 0.5, 0.75, 1, 2 and 4; bounds are inclusive."""
    engine = [-3.0] * 5
    trainer = [-3.0 + math.log(ratio) for ratio in (0.5, 0.7500001, 1.0, 1.9999999, 4.0)]
    truncated, masked = truncated_at(2.0), masked_to(0.75, 2.0)
    assert importance_weights(truncated, trainer, engine) == pytest.approx([0.5, 0.75, 1, 2, 2])
    assert importance_weights(masked, trainer, engine) == pytest.approx([0, 0.75, 1, 2, 0])
    assert importance_weights(None, trainer, engine) == [1.0] * 5
    assert importance_weights(masked_to(1.0, 1.0), engine, engine) == [1.0] * 5


def test_aggregate_docstring_example():
    loss = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, math.nan]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    found = [aggregate(loss, mask, kind, Totals(5, 2, 4)).item() for kind in KINDS]
    assert dict(zip(KINDS, found, strict=True)) == {
        "token_mean": 3.0,
        "sequence_mean": 3.25,
        "sequence_sum": 7.5,
        "fixed_length": 1.875,
    }


def batch():
    """6 rows of up to 5 trained tokens, one row without any."""
    generator = torch.Generator().manual_seed(0)
    loss = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    mask = torch.rand(6, 5, generator=generator) < 0.6
    mask[2] = False
    mask[3] = True
    totals = Totals(int(mask.sum()), int(mask.any(1).sum()), 8)
    assert totals.num_sequences == 5
    return loss, mask, totals


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)  # torch's first call is slow
@given(cuts=st.sets(st.integers(1, 5)), order=st.permutations(range(6)))
def test_micro_batches_in_any_order_sum_to_the_whole(kind, cuts, order):
    loss, mask, totals = batch()
    whole = aggregate(loss, mask, kind, totals)
    rows = [list(order)[start:end] for start, end in pairwise([0, *sorted(cuts), 6])]
    parts = [aggregate(loss[row], mask[row], kind, totals) for row in rows]
    torch.testing.assert_close(torch.stack(parts).sum(), whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_what_is_masked_changes_neither_value_nor_gradient(kind, junk):
    loss, mask, totals = batch()
    loss = loss.masked_fill(~mask, 0.0).requires_grad_()
    filled = loss.detach().masked_fill(~mask, junk)
    padded = torch.cat([filled, torch.full((6, 3), junk, dtype=torch.float64)], 1).requires_grad_()
    padded_mask = torch.cat([mask, torch.zeros(6, 3, dtype=torch.bool)], 1)
    values = aggregate(loss, mask, kind, totals), aggregate(padded, padded_mask, kind, totals)
    torch.testing.assert_close(*values)
    for value in values:
        value.backward()
    torch.testing.assert_close(padded.grad[:, :5], loss.grad)
    assert padded.grad[~padded_mask].abs().max() == 0
    assert loss.grad[mask].abs().min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_trained_is_0_with_gradient_0(kind):
    loss = torch.full((2, 3), math.nan, requires_grad=True)
    value = aggregate(loss, torch.zeros(2, 3, dtype=torch.bool), kind, Totals(0, 0, 0))
    value.backward()
    assert value.item() == 0
    assert loss.grad.abs().max() == 0


@pytest.mark.parametrize(
    ("value", "target", "error", "is_clipped"),
    [
        (0.5, 1.0, 0.32, True),  # ½ max(0.5², 0.8²): moved towards the target, by more than 0.2
        (0.5, 0.0, 0.125, False),  # ½ max(0.5², 0.2²): moved away from it
        (0.1, 1.0, 0.405, False),  # ½ 0.9², inside
        (-0.5, -1.0, 0.32, True),
        (-3.0, 0.0, 4.5, None),  # no clip
    ],
)
def test_clipped_value_loss_at_its_corners(value, target, error, is_clipped):
    """V_old = 0, clip 0.2."""
    values = torch.tensor([value], requires_grad=True)
    clip, is_clipped = (0.2, is_clipped) if is_clipped is not None else (None, False)
    loss, clipped = squared_error(values, torch.zeros(1), torch.tensor([target]), clip)
    loss.sum().backward()
    assert loss.item() == pytest.approx(error)
    assert clipped.item() is is_clipped
    assert values.grad.item() == pytest.approx(0.0 if is_clipped else value - target)


def test_cross_entropy_by_hand():
    """low −1, high 1: R = 0.5 is y = 0.75. At σ(x) = 0.25: −0.75 log 0.25 − 0.25 log 0.75."""
    logit = torch.tensor([math.log(0.25 / 0.75)], requires_grad=True)
    loss = cross_entropy(logit, torch.tensor([0.5]), -1.0, 1.0)
    loss.sum().backward()
    assert loss.item() == pytest.approx(-0.75 * math.log(0.25) - 0.25 * math.log(0.75))
    assert logit.grad.item() == pytest.approx(0.25 - 0.75)  # σ(x) − y
    returns = torch.tensor([-1.0, 0.3, 1.0])
    assert cross_entropy(torch.zeros(3), returns, -1.0, 1.0).tolist() == pytest.approx(
        [math.log(2)] * 3
    )


def test_cross_entropy_bears_returns_that_rounding_put_outside():
    """Beyond 1 the loss of a sure value would have no minimum: its gradient is 0 there, not < 0."""
    logits = torch.tensor([40.0, -40.0], requires_grad=True)
    cross_entropy(logits, torch.tensor([1.000001, -0.000001]), 0.0, 1.0).sum().backward()
    assert logits.grad.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


def test_whitened_values_have_mean_0_and_the_populations_deviation_1():
    torch.testing.assert_close(whiten(torch.tensor([1.0, 3.0])), torch.tensor([-1.0, 1.0]))
    found = whiten(torch.tensor([0.5, -1.0, 2.0, 2.0], dtype=torch.float64))
    assert abs(found.mean()) < 1e-12
    assert found.std(unbiased=False) == pytest.approx(1.0, abs=1e-6)
    for value in (0.0, 0.7, 1e6 + 0.1, -3e30):
        assert whiten(torch.full((7,), value)).abs().max() == 0
    assert whiten(torch.empty(0)).shape == (0,)
