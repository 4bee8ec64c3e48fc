import math
from itertools import pairwise
from types import SimpleNamespace
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
    policy_surrogate,
    sequence_surrogate,
    squared_error,
    weighted_likelihood,
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


@pytest.mark.parametrize("log_ratio", [-200.0, 200.0])
@pytest.mark.parametrize("advantage", [2.0, -2.0])
@pytest.mark.parametrize("kind", ["gspo", "cispo"])
def test_so_have_the_other_losses(log_ratio, advantage, kind):
    logprobs = torch.full((1, 2), log_ratio, requires_grad=True)
    config = of_kind(kind, clip_low=1.0, clip_high=4.0)
    mask, advantages = torch.ones(1, 2, dtype=torch.bool), torch.full((1, 2), advantage)
    terms = policy_surrogate(config, logprobs, torch.zeros(1, 2), advantages, mask)
    terms.loss.sum().backward()
    assert torch.isfinite(terms.loss).all()
    # The weight of CISPO is 5 at most, and goes on training; GSPO's ratio has left its bounds.
    weight = min(math.exp(math.copysign(20, log_ratio)), 5.0) if kind == "cispo" else 0.0
    assert logprobs.grad.flatten().tolist() == pytest.approx([-weight * advantage] * 2)


def of_kind(kind, **changes):
    """What of a config the loss reads."""
    keys = {"policy_loss": kind, "clip_low": 0.2, "clip_high": 0.3, "dual_clip": None}
    return SimpleNamespace(**keys | changes)


def gspo(ratios, advantages, mask=None, high=0.3):
    """Loss and gradient of a response's tokens, as lists; log π_old = −1."""
    old = torch.full((1, len(ratios)), -1.0, dtype=torch.float64)
    logprobs = (old + torch.tensor([ratios], dtype=torch.float64).log()).requires_grad_()
    mask = torch.tensor([[True] * len(ratios) if mask is None else mask])
    advantages = torch.tensor([advantages], dtype=torch.float64)
    terms = sequence_surrogate(logprobs, old, advantages, mask, 0.2, high)
    terms.loss[mask].sum().backward()
    lists = terms.loss, terms.ratio, terms.is_clipped, logprobs.grad
    return [x[0].tolist() for x in lists]


@pytest.mark.parametrize(
    ("ratios", "advantage", "is_clipped"),
    [
        ([2.0, 0.5], 1.0, False),  # √(2 · ½) = 1, though both tokens are outside
        ([2.0, 1.125], 1.0, True),  # √2.25 = 1.5, above 1.3
        ([2.0, 1.125], -1.0, False),
        ([0.5, 0.5], 1.0, False),
        ([0.5, 0.5], -1.0, True),  # below 0.8
        ([1.0, 1.44], 1.0, False),  # 1.2, inside
    ],
)
def test_one_ratio_clips_a_whole_response(ratios, advantage, is_clipped):
    loss, ratio, clipped, gradient = gspo(ratios, [advantage] * 2)
    s = math.sqrt(math.prod(ratios))
    kept = min(max(s, 0.8), 1.3) if is_clipped else s
    assert ratio == pytest.approx([s] * 2)
    assert clipped == [is_clipped] * 2
    assert loss == pytest.approx([-kept * advantage] * 2)
    assert gradient == pytest.approx([0.0 if is_clipped else -s * advantage] * 2)


@pytest.mark.parametrize(
    ("logprobs", "old", "mask", "losses"),
    [
        ([-math.inf, -1.0], [-1.0, -1.0], [True, True], [-math.exp(-20), 0.8]),
        ([-math.inf, -1.0], [-math.inf, -1.0], [True, True], [-1.0, 1.0]),
        ([-math.inf, -1.0], [-1.0, -1.0], [False, True], [-1.0, 1.0]),
        ([-math.inf, -1.0], [-1.0, -math.inf], [True, True], [-1.0, 1.0]),
    ],
)
def test_gspo_is_finite_where_a_token_is_impossible(logprobs, old, mask, losses):
    logprobs = torch.tensor([logprobs], dtype=torch.float64, requires_grad=True)
    old, advantages = (torch.tensor([x], dtype=torch.float64) for x in (old, [1.0, -1.0]))
    terms = sequence_surrogate(logprobs, old, advantages, torch.tensor([mask]), 0.2, 0.2)
    assert terms.loss[0].tolist() == pytest.approx(losses)
    terms.loss.sum().backward()
    assert logprobs.grad.isfinite().all()


def test_gspo_of_steps_keeps_each_tokens_advantage():
    """s = 1.5 > 1.3 clips the good step and leaves the bad one; s = 0.5 the other way round."""
    loss, _, clipped, gradient = gspo([2.0, 1.125, 1.5], [2.0, -1.0, 0.0])
    assert loss == pytest.approx([-2.6, 1.5, 0.0])
    assert clipped == [True, False, False]
    assert gradient == pytest.approx([0.0, 1.5, 0.0])
    loss, _, clipped, gradient = gspo([0.25, 1.0], [2.0, -1.0])
    assert loss == pytest.approx([-1.0, 0.8])
    assert clipped == [False, True]
    assert gradient == pytest.approx([-1.0, 0.0])


def test_what_does_not_train_is_not_in_a_responses_ratio():
    """(2 · 1.125)^½ = 1.5 of the first two; neither value nor gradient knows of the third."""
    loss, _, clipped, gradient = gspo([2.0, 1.125, 1e6], [-1.0] * 3, mask=[True, True, False])
    assert loss[:2] == pytest.approx([1.5, 1.5])
    assert clipped[:2] == [False, False]
    assert gradient == pytest.approx([1.5, 1.5, 0.0])
    nothing = gspo([2.0, 3.0], [1.0, 1.0], mask=[False, False])
    assert nothing[0] == pytest.approx([-1.0, -1.0])
    assert nothing[3] == [0.0, 0.0]


def gspo_of_the_paper(logprobs, old, advantages_B, mask, low, high):
    """arXiv:2507.18071, eq. 5 and 7, response by response; the gradient passes through s."""
    total = 0.0
    for b, advantage in enumerate(advantages_B):
        s = torch.exp((logprobs[b][mask[b]] - old[b][mask[b]]).mean())
        total = total + torch.minimum(s * advantage, s.clamp(1 - low, 1 + high) * advantage)
    return -total / len(advantages_B)


def test_gspo_of_one_advantage_a_response_is_the_papers():
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(24, 7, generator=generator, dtype=torch.float64)
    start = old + 0.5 * torch.randn(24, 7, generator=generator, dtype=torch.float64)
    mask = torch.rand(24, 7, generator=generator) < 0.7
    mask[:, 0] = True
    advantages_B = torch.randn(24, generator=generator, dtype=torch.float64)
    gradients, values = [], []
    for is_paper in (True, False):
        logprobs = start.clone().requires_grad_()
        if is_paper:
            value = gspo_of_the_paper(logprobs, old, advantages_B, mask, 0.1, 0.2)
        else:
            advantages = advantages_B[:, None].expand(24, 7)
            terms = sequence_surrogate(logprobs, old, advantages, mask, 0.1, 0.2)
            assert 0.2 < terms.is_clipped[:, 0].float().mean() < 0.8
            totals = Totals(int(mask.sum()), 24, 7)
            value = aggregate(terms.loss, mask, "sequence_mean", totals)
        value.backward()
        values.append(value.detach())
        gradients.append(logprobs.grad)
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"),
    [
        (1.5, 2.0, 1.3),  # where PPO's gradient is 0
        (1.5, -2.0, 1.3),  # where it is not, and not bounded
        (0.5, 2.0, 0.8),
        (0.5, -2.0, 0.8),
        (1.25, 2.0, 1.25),  # inside
    ],
)
def test_cispo_clips_the_weight_and_keeps_the_gradient(ratio, advantage, weight):
    """−weight · A · log π at log π = −3; the derivative is −weight · A, whatever is clipped."""
    logprobs = torch.tensor([-3.0], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([-3.0 - math.log(ratio)], dtype=torch.float64)
    terms = weighted_likelihood(logprobs, old, torch.tensor([advantage]), 0.2, 0.3)
    terms.loss.sum().backward()
    assert terms.loss.item() == pytest.approx(3 * weight * advantage)
    assert terms.ratio.item() == pytest.approx(ratio)
    assert terms.is_clipped.item() is (weight != ratio)
    assert logprobs.grad.item() == pytest.approx(-weight * advantage)


@pytest.mark.parametrize("kind", ["ppo", "gspo", "cispo"])
def test_every_loss_begins_with_the_policy_gradient(kind):
    advantages = torch.tensor([[0.3, -1.2, 0.0]])
    logprobs = torch.tensor([[-0.1, -2.0, -3.0]], requires_grad=True)
    mask = torch.ones(1, 3, dtype=torch.bool)
    terms = policy_surrogate(of_kind(kind), logprobs, logprobs.detach(), advantages, mask)
    terms.loss.sum().backward()
    torch.testing.assert_close(logprobs.grad, -advantages)
    assert terms.ratio.flatten().tolist() == [1.0] * 3
    assert not terms.is_clipped.any()


# What others' code says of an update of two responses, the second without its last token. DAPO's
# and the sequence weights are their authors' own, in verl (b178a3c), GSPO and CISPO others', there;
# Dr. GRPO's is its authors', in oat (c1a074c).
OLD = [[-0.5, -2.0, -0.1, -1.5], [-0.3, -0.7, -1.2, -0.4]]
NEW = [[-0.1, -2.5, -0.3, -1.0], [-1.2, -0.2, -0.9, -0.1]]


@pytest.mark.parametrize(
    ("kind", "changes", "aggregation", "loss", "gradient"),
    [
        # DAPO: clip-higher, mean over tokens; then with a dual clip.
        ("ppo", {}, "token_mean", -0.297996, [0, -0.086647, -0.116962, 0, 0, 0.117766, 0.096418]),
        ("ppo", {"dual_clip": 1.5}, "token_mean", -0.308619,
         [0, -0.086647, -0.116962, 0, 0, 0, 0.096418]),
        ("ppo", {}, "sequence_mean", -0.181609,
         [0, -0.075816, -0.102341, 0, 0, 0.137393, 0.112488]),
        # Dr. GRPO: the sum over tokens by the longest response, 8.
        ("ppo", {"clip_high": 0.2}, "fixed_length", -0.120373,
         [0, -0.037908, -0.051171, 0, 0, 0.051523, 0.042183]),
        ("gspo", {}, "sequence_mean", -0.283832, [-0.131409] * 4 + [0.080601] * 3),
        ("gspo", {"clip_low": 0.01, "clip_high": 0.02}, "sequence_mean", -0.2625, [0] * 7),
        ("cispo", {"clip_low": 1.0, "clip_high": 0.5}, "token_mean", 0.34425,
         [-0.213118, -0.086647, -0.116962, -0.214286, 0.029041, 0.107143, 0.096418]),
    ],
)  # fmt: skip
def test_losses_are_those_of_others_code(kind, changes, aggregation, loss, gradient):
    keys = {"policy_loss": kind, "clip_low": 0.2, "clip_high": 0.28, "dual_clip": None} | changes
    logprobs = torch.tensor(NEW, dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([[1.0] * 4, [-0.5] * 4])
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    terms = policy_surrogate(SimpleNamespace(**keys), logprobs, torch.tensor(OLD), advantages, mask)
    total = aggregate(terms.loss, mask, aggregation, Totals(7, 2, 8))
    total.backward()
    assert total.item() == pytest.approx(loss, abs=1e-6)
    assert logprobs.grad.flatten().tolist() == pytest.approx([*gradient, 0], abs=1e-6)


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


@pytest.mark.parametrize(
    ("config", "weight"),
    [
        (truncated_at(3.0, "sequence"), 2.0),  # 0.5 · 1 · 4
        (truncated_at(1.5, "sequence"), 1.5),
        (masked_to(0.75, 2.5, "sequence"), 2.0),  # though two of the tokens are outside
        (masked_to(0.0, 1.5, "sequence"), 0.0),
        (masked_to(3.0, 9.0, "sequence"), 0.0),
    ],
)
def test_a_responses_weight_is_the_product_of_its_tokens(config, weight):
    engine = [-3.0] * 3
    trainer = [-3.0 + math.log(ratio) for ratio in (0.5, 1.0, 4.0)]
    assert importance_weights(config, trainer, engine) == pytest.approx([weight] * 3)


def test_a_responses_weights_make_the_engines_samples_the_trainers():
    """Σ_y q(y) w(y) f(y) = Σ_y p(y) f(y) over all pairs of bits, if nothing is cut.

    f = 1 for "11". By tokens the last one's weight knows nothing of how often the first came.
    """
    first_p, first_q = 0.5, 0.2  # of a 1
    second_p, second_q = {0: 0.5, 1: 0.8}, {0: 0.5, 1: 0.4}  # of a 1 after the first
    found = {"token": 0.0, "sequence": 0.0}
    for level in found:
        trainer = [math.log(first_p), math.log(second_p[1])]
        engine = [math.log(first_q), math.log(second_q[1])]
        weight = importance_weights(truncated_at(100.0, level), trainer, engine)[-1]
        found[level] = first_q * second_q[1] * weight
    assert found["sequence"] == pytest.approx(0.5 * 0.8)
    assert found["token"] == pytest.approx(0.2 * 0.8)


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
