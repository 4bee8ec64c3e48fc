"""Policy losses beside PPO's: at their corners, as their papers and others' code have them."""

import math
from types import SimpleNamespace

import pytest
import torch

from vineppo.losses import Totals, aggregate, policy_surrogate
from vineppo.recipes.policy_losses import filter_weights, sequence_surrogate, weighted_likelihood


def of_kind(kind, **changes):
    """The part of a config that the loss reads."""
    keys = {"policy_loss": kind, "clip_low": 0.2, "clip_high": 0.3, "dual_clip": None}
    return SimpleNamespace(**keys | changes)


@pytest.mark.parametrize("log_ratio", [-200.0, 200.0])
@pytest.mark.parametrize("advantage", [2.0, -2.0])
@pytest.mark.parametrize("kind", ["gspo", "cispo"])
def test_a_ratio_that_overflows_has_a_finite_loss_and_gradient(log_ratio, advantage, kind):
    logprobs = torch.full((1, 2), log_ratio, requires_grad=True)
    config = of_kind(kind, clip_low=1.0, clip_high=4.0)
    mask, advantages = torch.ones(1, 2, dtype=torch.bool), torch.full((1, 2), advantage)
    terms = policy_surrogate(config, logprobs, torch.zeros(1, 2), advantages, mask)
    terms.loss.sum().backward()
    assert torch.isfinite(terms.loss).all()
    # The weight of CISPO is 5 at most, and goes on training; GSPO's ratio has left its bounds.
    weight = min(math.exp(math.copysign(20, log_ratio)), 5.0) if kind == "cispo" else 0.0
    assert logprobs.grad.flatten().tolist() == pytest.approx([-weight * advantage] * 2)


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
    terms = weighted_likelihood(logprobs, old, torch.tensor([advantage]), None, 0.2, 0.3)
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


def test_filter_weights():
    """Half the best, half the worst; rollouts of one reward share alike."""
    assert filter_weights([9, 5, 5, 1]) == [1 / 2, 0, 0, 1 / 2]
    assert filter_weights([0.3] * 5) == [0.2] * 5
    found = filter_weights([1, 0, 0, 1, 0])
    assert found == pytest.approx([1 / 4, 1 / 6, 1 / 6, 1 / 4, 1 / 6])
