import math

import pytest
import torch

from vineppo.losses import clipped_surrogate, whiten


def surrogate(ratio, advantage, low=0.2, high=0.3):
    logprobs = torch.tensor([math.log(ratio)], requires_grad=True)
    terms = clipped_surrogate(logprobs, torch.zeros(1), torch.tensor([advantage]), low, high)
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
    ],
)
def test_clipping_at_its_corners(ratio, advantage, loss, is_clipped):
    found, clipped, gradient = surrogate(ratio, advantage)
    assert found == pytest.approx(loss)
    assert clipped is is_clipped
    # d(−rA)/d log π = −rA where the clip is off, 0 where it is on.
    assert gradient == pytest.approx(0.0 if is_clipped else -ratio * advantage)


def test_gradient_at_ratio_one_is_the_policy_gradient():
    advantages = torch.tensor([0.3, -1.2, 0.0])
    logprobs = torch.tensor([-0.1, -2.0, -3.0], requires_grad=True)
    clipped_surrogate(logprobs, logprobs.detach(), advantages, 0.2, 0.2).loss.sum().backward()
    torch.testing.assert_close(logprobs.grad, -advantages)


def test_whiten_docstring_example():
    ones = torch.ones(2)
    torch.testing.assert_close(whiten(torch.tensor([1.0, 3.0]), ones), torch.tensor([-1.0, 1.0]))


def test_weights_count_repetitions():
    values = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    weights = torch.tensor([3, 1, 2])
    repeated = whiten(values.repeat_interleave(weights), torch.ones(6))
    torch.testing.assert_close(
        whiten(values, weights.double()).repeat_interleave(weights), repeated
    )
    assert abs(repeated.mean()) < 1e-12
    assert repeated.std(unbiased=False) == pytest.approx(1.0, abs=1e-6)


def test_equal_values_whiten_to_zero():
    assert whiten(torch.full((4,), 0.7), torch.ones(4)).abs().max() < 1e-6
