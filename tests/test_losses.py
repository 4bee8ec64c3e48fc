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


def surrogate(ratio, advantage, low=0.2, high=0.3, dual_clip=None):
    logprobs = torch.tensor([math.log(ratio)], requires_grad=True)
    advantages = torch.tensor([advantage])
    terms = clipped_surrogate(logprobs, torch.zeros(1), advantages, low, high, dual_clip)
    terms.loss.sum().backward()
    return terms.loss.item(), terms.is_clipped.item(), logprobs.grad.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "is_clipped"),
    [
        (1.5, 2.0, -2.6, True),  # −min(3, 1.3·2): above 1 + clip_high
        (1.5, -2.0, 3.0, False),  # a bad token grew likelier: never clipped
        (0.5, 2.0, -1.0, False),
        (0.5, -2.0, 1.6, True),  # −min(−1, −0.8·2): below 1 − clip_low
        (1.25, 2.0, -2.5, False),  # inside the wider upper clip
        (0.75, -2.0, 1.6, True),  # outside the narrower lower one
    ],
)
def test_clipping_at_its_corners(ratio, advantage, loss, is_clipped):
    found, clipped, gradient = surrogate(ratio, advantage)
    assert found == pytest.approx(loss)
    assert clipped is is_clipped
    # d(−rA)/d log π = −rA where the clip is off, 0 where it is on.
    assert gradient == pytest.approx(0.0 if is_clipped else -ratio * advantage)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "is_clipped"),
    [
        (4.0, -2.0, 6.0, True),  # min(4·2, 3·2)
        (2.9, -2.0, 5.8, False),  # below 3
        (0.5, -2.0, 1.6, True),  # the ordinary clip
        (4.0, 2.0, -2.6, True),  # A > 0: the ordinary clip
        (0.1, 2.0, -0.2, False),  # A > 0: no bound, though −0.2 > −6
        (4.0, 0.0, 0.0, False),
    ],
)
def test_dual_clip_at_its_corners(ratio, advantage, loss, is_clipped):
    found, clipped, gradient = surrogate(ratio, advantage, dual_clip=3.0)
    assert found == pytest.approx(loss)
    assert clipped is is_clipped
    assert gradient == pytest.approx(0.0 if is_clipped else -ratio * advantage)


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_gradient_at_ratio_one_is_the_policy_gradient(dual_clip):
    advantages = torch.tensor([0.3, -1.2, 0.0])
    logprobs = torch.tensor([-0.1, -2.0, -3.0], requires_grad=True)
    terms = clipped_surrogate(logprobs, logprobs.detach(), advantages, 0.2, 0.2, dual_clip)
    terms.loss.sum().backward()
    torch.testing.assert_close(logprobs.grad, -advantages)


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


def test_importance_weights_of_gaps_whose_exponential_overflows():
    truncated = TruncatedImportance("truncated", max_weight=2.0)
    assert importance_weights(truncated, [0.0, -1000.0], [-1000.0, 0.0]) == [2.0, 0.0]
    masked = MaskedImportance("masked", min_weight=0.5, max_weight=2.0)
    assert importance_weights(masked, [0.0, -1000.0], [-1000.0, 0.0]) == [0.0, 0.0]


def test_importance_weights_at_their_corners():
    """Ratios 0.5, 0.75, 1, 2 and 4; bounds are inclusive."""
    engine = [-3.0] * 5
    trainer = [-3.0 + math.log(ratio) for ratio in (0.5, 0.7500001, 1.0, 1.9999999, 4.0)]
    truncated = TruncatedImportance("truncated", max_weight=2.0)
    assert importance_weights(truncated, trainer, engine) == pytest.approx([0.5, 0.75, 1, 2, 2])
    masked = MaskedImportance("masked", min_weight=0.75, max_weight=2.0)
    assert importance_weights(masked, trainer, engine) == pytest.approx([0, 0.75, 1, 2, 0])
    assert importance_weights(None, trainer, engine) == [1.0] * 5
    exactly_one = MaskedImportance("masked", min_weight=1.0, max_weight=1.0)
    assert importance_weights(exactly_one, engine, engine) == [1.0] * 5


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
    ],
)
def test_clipped_value_loss_at_its_corners(value, target, error, is_clipped):
    """V_old = 0, clip 0.2."""
    values = torch.tensor([value], requires_grad=True)
    loss, clipped = squared_error(values, torch.zeros(1), torch.tensor([target]), 0.2)
    loss.sum().backward()
    assert loss.item() == pytest.approx(error)
    assert clipped.item() is is_clipped
    assert values.grad.item() == pytest.approx(0.0 if is_clipped else value - target)


def test_value_loss_without_a_clip():
    values = torch.tensor([0.5, -3.0], requires_grad=True)
    loss, is_clipped = squared_error(values, torch.zeros(2), torch.tensor([1.0, 0.0]), None)
    loss.sum().backward()
    assert loss.tolist() == [0.125, 4.5]
    assert is_clipped.tolist() == [False, False]
    assert values.grad.tolist() == [-0.5, -3.0]


def test_inside_the_clip_nothing_counts_as_clipped():
    torch.manual_seed(0)
    old, values, returns = torch.randn(3, 100_000)  # enough that rounding shows
    inside = (values - old).abs() < 0.2
    is_clipped = squared_error(values, old, returns, 0.2)[1]
    assert not is_clipped[inside].any()
    assert is_clipped[~inside].any()


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


def test_cross_entropy_is_minimal_at_the_return():
    low, high, returns = -0.5, 1.5, torch.tensor([-0.2, 0.5, 1.4])
    share = (returns - low) / (high - low)
    logits = torch.log(share / (1 - share)).requires_grad_()
    cross_entropy(logits, returns, low, high).sum().backward()
    torch.testing.assert_close(logits.grad, torch.zeros(3))


def test_cross_entropy_bears_returns_that_rounding_put_outside():
    """Beyond 1 the loss of a sure value would have no minimum: its gradient is 0 there, not < 0."""
    logits = torch.tensor([40.0, -40.0], requires_grad=True)
    cross_entropy(logits, torch.tensor([1.000001, -0.000001]), 0.0, 1.0).sum().backward()
    assert logits.grad.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)


def test_whiten_docstring_example():
    torch.testing.assert_close(whiten(torch.tensor([1.0, 3.0])), torch.tensor([-1.0, 1.0]))


def test_whitened_values_have_mean_0_and_the_populations_deviation_1():
    found = whiten(torch.tensor([0.5, -1.0, 2.0, 2.0], dtype=torch.float64))
    assert abs(found.mean()) < 1e-12
    assert found.std(unbiased=False) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.7, 1e6 + 0.1, -3e30])
def test_equal_values_whiten_to_zero(value):
    assert whiten(torch.full((7,), value)).abs().max() == 0


def test_nothing_whitens_to_nothing():
    assert whiten(torch.empty(0)).shape == (0,)
