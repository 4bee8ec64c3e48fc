"""One uniform number makes one token, at exactly the probability that is reported."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import kstest

from vineppo.recipes import transformers_engine
from vineppo.recipes.transformers_engine import cut, nuclei, sample_tokens, uniforms

ALMOST_ONE = 1 - 2.0**-52


def brute_force_cut(probs_V, top_k, min_p):
    """Renormalised probabilities: the k likeliest that are likely enough beside the first."""
    kept = sorted(range(len(probs_V)), key=lambda v: -probs_V[v])[:top_k]
    mass = sum(probs_V[v] for v in kept if probs_V[v] >= min_p * max(probs_V))
    return [
        p / mass if v in kept and p >= min_p * max(probs_V) else 0.0 for v, p in enumerate(probs_V)
    ]


def test_cuts_keep_the_likeliest_at_the_rows_own_temperature():
    generator = torch.Generator().manual_seed(3)
    logits_BV = torch.randn(60, 12, generator=generator) * 2
    temperatures_B = torch.rand(60, generator=generator) + 0.5
    top_ks_B = torch.randint(1, 13, (60,), generator=generator)
    min_ps_B = torch.rand(60, generator=generator) * (torch.arange(60) % 3 > 0) * 0.3
    found_BV = cut(logits_BV, temperatures_B, min_ps_B, top_ks_B) / temperatures_B[:, None]
    probs_BV = (logits_BV / temperatures_B[:, None]).double().softmax(-1)
    rows = zip(probs_BV.tolist(), top_ks_B.tolist(), min_ps_B.tolist(), strict=True)
    expected_BV = torch.tensor([brute_force_cut(*row) for row in rows])
    torch.testing.assert_close(found_BV.softmax(-1), expected_BV, atol=1e-6, rtol=1e-4)
    assert 0.1 < (expected_BV == 0).float().mean() < 0.9


def logits_of(*probs):
    return torch.tensor([probs]).log()


def sample(logits_1V, u, temperature=1.0, top_p=1.0):
    tokens_B, logprobs_B = sample_rows(logits_1V, [temperature], [top_p], [u])
    return int(tokens_B), float(logprobs_B)


def sample_rows(logits_BV, temperatures_B, top_ps_B, uniforms_B):
    """Samples rows; a greedy one has temperature and top_p 1 here."""
    is_greedy_B = torch.tensor([temperature == 0 for temperature in temperatures_B])
    temperatures_B = torch.tensor(temperatures_B).masked_fill(is_greedy_B, 1.0)
    top_ps_B = torch.tensor(top_ps_B).masked_fill(is_greedy_B, 1.0)
    uniforms_B = torch.tensor(uniforms_B, dtype=torch.float64)
    return sample_tokens(logits_BV, temperatures_B, top_ps_B, is_greedy_B, uniforms_B)


def brute_force_nucleus(probs_V, top_p):
    """Renormalised probabilities: the likeliest ids until their mass reaches top_p."""
    kept, mass = {}, 0.0
    for token in sorted(range(len(probs_V)), key=lambda v: -probs_V[v]):
        if mass >= top_p:
            break
        kept[token] = probs_V[token]
        mass += probs_V[token]
    return [kept.get(v, 0.0) / mass for v in range(len(probs_V))]


def test_worked_example():
    """0.5 < 0.7, so 0.3 is in the nucleus as well: (0.625, 0.375); 0.63 is past 0.625.

    A greedy row takes the likeliest, whatever u and top_p.
    """
    logits_1V = logits_of(0.5, 0.3, 0.2)
    assert sample(logits_1V, 0.63, top_p=0.7) == (1, pytest.approx(math.log(0.375)))
    assert sample(logits_1V, 0.99, temperature=0.0, top_p=0.1) == (0, pytest.approx(math.log(0.5)))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("top_p", [0.35, 0.9, 1.0])
def test_a_grid_of_numbers_meets_every_token_at_its_probability(temperature, top_p):
    count, probs_V = 20_000, [0.05, 0.4, 0.0, 0.3, 0.25]
    tempered = [p ** (1 / temperature) for p in probs_V]
    expected_V = brute_force_nucleus([p / sum(tempered) for p in tempered], top_p)
    grid = [(i + 0.5) / count for i in range(count)]
    tokens_B, logprobs_B = sample_rows(
        logits_of(*probs_V).expand(count, -1), [temperature] * count, [top_p] * count, grid
    )
    found = Counter(tokens_B.tolist())
    for token, probability in enumerate(expected_V):
        assert found[token] == pytest.approx(probability * count, abs=1.01)
    expected_B = torch.tensor(expected_V).log()[tokens_B]
    torch.testing.assert_close(logprobs_B, expected_B, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("most_likely", "largest_top_p", "num_ids"), [(10, 0.3, 10), (10, 1.0, 40), (512, 0.3, 40)]
)
def test_many_random_nuclei_against_brute_force(monkeypatch, most_likely, largest_top_p, num_ids):
    """40 ids in halves, many equal; ten are enough for a mass of 0.3, not of 1."""
    monkeypatch.setattr(transformers_engine, "MOST_LIKELY", most_likely)
    generator = torch.Generator().manual_seed(0)
    probs_BV = ((4 * torch.randn(50, 40, generator=generator)).round() / 2).double().softmax(-1)
    top_ps_B = largest_top_p * torch.rand(50, generator=generator)
    top_ps_B[0] = largest_top_p
    logprobs_BK, ids_BK = nuclei(probs_BV.log().float(), top_ps_B)
    assert ids_BK.shape == (50, num_ids)
    assert (ids_BK.diff() > 0).all()
    found_BV = torch.zeros(50, 40).scatter(1, ids_BK, logprobs_BK.exp())
    rows = zip(probs_BV.tolist(), top_ps_B.tolist(), strict=True)
    expected_BV = [brute_force_nucleus(probs_V, top_p) for probs_V, top_p in rows]
    torch.testing.assert_close(found_BV, torch.tensor(expected_BV), atol=1e-6, rtol=1e-4)


def test_ends_of_the_interval_meet_no_impossible_token():
    assert sample(logits_of(0.0, 0.3, 0.7, 0.0), 0.0) == (1, pytest.approx(math.log(0.3)))
    assert sample(logits_of(0.0, 0.3, 0.7, 0.0), ALMOST_ONE)[0] == 2
    generator = torch.Generator().manual_seed(2)
    logits_BV = torch.randn(20, 50_000, generator=generator)
    logits_BV[:, -100:] = -torch.inf
    tokens_B, _ = sample_rows(logits_BV, [1.0] * 20, [1.0] * 20, [ALMOST_ONE] * 20)
    assert int(tokens_B.max()) < 49_900


def test_uniform_numbers():
    numbers_ST = np.stack([uniforms(seed, 100) for seed in range(100)])
    assert ((numbers_ST >= 0) & (numbers_ST <= ALMOST_ONE)).all()
    assert len(np.unique(numbers_ST)) == 10_000
    assert kstest(numbers_ST.flatten(), "uniform").pvalue > 0.01
    assert (uniforms(7, 3) == uniforms(7, 100)[:3]).all()
    assert not set(uniforms(2**63 - 1, 100)) & set(uniforms(2**62 - 1, 100))
