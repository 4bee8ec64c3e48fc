"""Losses and KL against numbers worked out by hand, and the identities that hold for all inputs."""

import math
from itertools import pairwise
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vineppo.config.schema import LossAggregation, MaskedImportance, TruncatedImportance
from vineppo.losses import (
    KL_ESTIMATORS,
    Totals,
    absolute,
    adapted_coef,
    aggregate,
    clamp,
    clipped_surrogate,
    cross_entropy,
    full,
    importance_weights,
    k1,
    k2,
    k3,
    squared_error,
    weighted,
    whiten,
    with_k2_gradient,
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


HALF, QUARTER = torch.tensor(math.log(0.5)), torch.tensor(math.log(0.25))


def policies(seed=0):
    """Logits (a leaf) and log-probabilities of π, log-probabilities of π_ref; 7 tokens."""
    generator = torch.Generator().manual_seed(seed)
    logits, ref_logits = torch.randn(2, 7, dtype=torch.float64, generator=generator)
    logits.requires_grad_()
    return logits, torch.log_softmax(logits, 0), torch.log_softmax(ref_logits, 0)


def gradient_in_expectation(per_token, logprobs, logits):
    """E_{v~π}[∇ per_token(v)]: the tokens were sampled before, so π(v) has no gradient."""
    loss = (logprobs.exp().detach() * per_token).sum()
    return torch.autograd.grad(loss, logits, retain_graph=True)[0]


def test_docstring_examples():
    assert k1(HALF, QUARTER).item() == pytest.approx(math.log(2))
    assert absolute(QUARTER, HALF).item() == pytest.approx(math.log(2))
    assert k2(HALF, QUARTER).item() == pytest.approx(0.5 * math.log(2) ** 2)
    assert k3(HALF, QUARTER).item() == pytest.approx(0.5 - 1 + math.log(2))
    even, uneven = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    assert full(even, uneven).tolist() == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3)])
    assert clamp(torch.tensor([-0.5, 3.0, 12.0]), (0.0, 10.0)).tolist() == [0.0, 3.0, 10.0]
    assert adapted_coef(0.1, 6.6, 6.0, 1000.0, 500) == pytest.approx(0.105)
    logprob = HALF.clone().requires_grad_()
    kl = with_k2_gradient(k1(logprob, QUARTER), logprob, QUARTER)
    kl.backward()
    assert (kl.item(), logprob.grad.item()) == pytest.approx((math.log(2), math.log(2)))


@pytest.mark.parametrize("seed", range(5))
def test_k1_and_k3_are_unbiased(seed):
    """Σ_v π(v) k(v), no sampling."""
    _, logprobs, ref = policies(seed)
    exact = full(logprobs, ref)
    assert exact > 0
    for estimator in (k1, k3):
        torch.testing.assert_close((logprobs.exp() * estimator(logprobs, ref)).sum(), exact)
    assert (logprobs.exp() * absolute(logprobs, ref)).sum() > exact


@pytest.mark.parametrize("name", KL_ESTIMATORS)
def test_every_estimator_with_the_gradient_of_k2_has_that_of_the_kl(name):
    logits, logprobs, ref = policies()
    estimate = KL_ESTIMATORS[name](logprobs, ref)
    changed = with_k2_gradient(estimate, logprobs, ref)
    assert torch.equal(changed, estimate)
    (exact,) = torch.autograd.grad(full(logprobs, ref), logits, retain_graph=True)
    torch.testing.assert_close(gradient_in_expectation(changed, logprobs, logits), exact)


def test_weighted_docstring_example():
    for gradient in ("own", "k2"):
        logprob = HALF.clone().requires_grad_()
        kl = k3(logprob, QUARTER)
        if gradient == "k2":
            kl = with_k2_gradient(kl, logprob, QUARTER)
        kl = weighted(kl, (logprob - QUARTER).exp(), gradient)
        kl.backward()
        assert kl.item() == pytest.approx(2 * (0.5 - 1 + math.log(2)))
        assert logprob.grad.item() == pytest.approx(2 * math.log(2))


@pytest.mark.parametrize(("name", "gradient"), [("k3", "own"), ("k3", "k2"), ("k1", "k2")])
def test_tokens_of_the_old_policy_weigh_as_the_new_ones(name, gradient):
    """Σ_v π_old(v) · (value, gradient) is that of the exact KL; unweighted it is not."""
    logits, logprobs, ref = policies()
    old = policies(seed=1)[1].detach()
    kl = KL_ESTIMATORS[name](logprobs, ref)
    if gradient == "k2":
        kl = with_k2_gradient(kl, logprobs, ref)
    exact = full(logprobs, ref)
    (exact_gradient,) = torch.autograd.grad(exact, logits, retain_graph=True)
    plain = (old.exp() * kl).sum()
    found = (old.exp() * weighted(kl, (logprobs - old).exp(), gradient)).sum()
    torch.testing.assert_close(found, exact)
    found_gradient = torch.autograd.grad(found, logits, retain_graph=True)[0]
    torch.testing.assert_close(found_gradient, exact_gradient)
    assert abs(plain - exact) > 0.1 * exact
    plain_gradient = torch.autograd.grad(plain, logits)[0]
    assert (plain_gradient - exact_gradient).norm() > 0.1 * exact_gradient.norm()


def test_the_gradient_of_k2_is_that_of_the_visited_states_not_of_the_sequence():
    """Two tokens of two; the first decides which of two states the second is sampled in."""
    logits = torch.tensor([[0.3, -0.2], [1.0, 0.0], [-2.0, 1.0]], dtype=torch.float64)
    logits.requires_grad_()
    p, q = torch.log_softmax(logits, -1), torch.full((3, 2), math.log(0.5), dtype=torch.float64)
    visits = torch.stack([torch.ones(()).double(), *p[0].exp()])  # of the states: 1, π(0), π(1)
    kl = full(p, q)
    loss = (visits[:, None] * p.exp()).detach() * k2(p, q)

    def derivative(x):
        return torch.autograd.grad(x, logits, retain_graph=True)[0]

    found = derivative(loss.sum())
    torch.testing.assert_close(found, derivative((visits.detach() * kl).sum()))
    of_first = (p[0].exp().detach() * p[0] * kl[1:].detach()).sum()  # E[∇ log π(y_0) · KL after it]
    torch.testing.assert_close(found + derivative(of_first), derivative((visits * kl).sum()))
    assert derivative(of_first).abs().max() > 0.05


def test_tokens_without_probability_add_nothing_to_full():
    """π = [1, 0, 0], π_ref = [½, ½, 0]: KL = 1 · log(1/½)."""
    logits = torch.tensor([[0.0, -math.inf, -math.inf]], requires_grad=True)
    ref = torch.tensor([[0.5, 0.5, 0.0]]).log()
    kl = full(torch.log_softmax(logits, -1), ref)
    kl.sum().backward()
    assert kl.item() == pytest.approx(math.log(2))
    assert logits.grad.isfinite().all()
    assert full(ref, torch.tensor([[1.0, 0.0, 0.0]]).log()).item() == math.inf


def test_k3_of_a_token_that_the_policy_gave_up_is_finite_with_its_gradient():
    logprobs = torch.tensor([-200.0], requires_grad=True)
    clamp(k3(logprobs, torch.tensor([-0.1])), (0.0, 10.0)).sum().backward()
    assert logprobs.grad.tolist() == [0.0]


@pytest.mark.parametrize(
    ("kl", "factor"),
    [
        (6.0, 1.0),  # on target
        (5.4, 0.95),  # error −0.1, times n/horizon = 0.5
        (60.0, 1.1),  # error 9, clipped to 0.2
        (0.0, 0.9),  # error −1, clipped to −0.2
        (math.inf, 1.1),
        (math.nan, 1.0),  # or it would be NaN for good
    ],
)
def test_adapted_coef(kl, factor):
    assert adapted_coef(0.1, kl, 6.0, 1000.0, 500) == pytest.approx(0.1 * factor)
