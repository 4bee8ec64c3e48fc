import math

import pytest
import torch

from vineppo.kl import KL_ESTIMATORS, k1, k2, k3

HALF, QUARTER = torch.tensor(math.log(0.5)), torch.tensor(math.log(0.25))


def test_docstring_examples():
    assert k1(HALF, QUARTER).item() == pytest.approx(math.log(2))
    assert k2(HALF, QUARTER).item() == pytest.approx(0.5 * math.log(2) ** 2)
    assert k3(HALF, QUARTER).item() == pytest.approx(0.5 - 1 + math.log(2))


def test_k1_and_k3_are_unbiased_and_the_gradient_of_k2_is_that_of_the_kl():
    """Exact expectations over a vocabulary of 7, no sampling."""
    torch.manual_seed(0)
    logits = torch.randn(7, dtype=torch.float64, requires_grad=True)
    ref = torch.log_softmax(torch.randn(7, dtype=torch.float64), 0)
    logprobs = torch.log_softmax(logits, 0)
    kl = (logprobs.exp() * (logprobs - ref)).sum()
    for estimator in (k1, k3):
        torch.testing.assert_close((logprobs.exp() * estimator(logprobs, ref)).sum(), kl)
    (true_gradient,) = torch.autograd.grad(kl, logits, retain_graph=True)
    # E_{x~π}[∇ k2(x)], the sampling distribution held fixed.
    (gradient,) = torch.autograd.grad((logprobs.exp().detach() * k2(logprobs, ref)).sum(), logits)
    torch.testing.assert_close(gradient, true_gradient)


@pytest.mark.parametrize("name", ["k2", "k3"])
def test_never_negative(name):
    torch.manual_seed(0)
    a, b = -torch.rand(1000) * 5, -torch.rand(1000) * 5
    assert KL_ESTIMATORS[name](a, b).min() >= 0


def test_inputs_stay_as_they_are():
    a, b = torch.tensor([-1.0]), torch.tensor([-2.0])
    for estimator in KL_ESTIMATORS.values():
        estimator(a, b)
    assert (a.item(), b.item()) == (-1.0, -2.0)
