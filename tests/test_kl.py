import math

import pytest
import torch

from vineppo.losses import (
    KL_ESTIMATORS,
    absolute,
    adapted_coef,
    clamp,
    full,
    k1,
    k2,
    k3,
    weighted,
    with_k2_gradient,
)

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
