"""From experience to training sequences."""

import math
from types import SimpleNamespace

import pytest
import torch

from vineppo.batching import collate
from vineppo.config.schema import LinesSegmenter, VineCredit
from vineppo.experience import Experience
from vineppo.trainer import build_sequences, policy_loss
from vineppo.types import Problem, Rollout, StateValue, StepSpan, TrainSequence

CREDIT = VineCredit("vine", 2, LinesSegmenter("lines"), "share")


def experience() -> Experience:
    """Two rollouts: steps of 2 and 1 tokens, rewarded; one step of 3 tokens, not rewarded."""

    def rollout(index, response_ids, reward):
        logprobs = (-0.5,) * len(response_ids)
        return Rollout(
            Problem("p", "q", "a"), index, (1, 2), response_ids, logprobs, "stop", "", reward
        )

    return Experience(
        rollouts=[rollout(0, (3, 4, 5), 1.0), rollout(1, (6, 7, 8), 0.0)],
        spans_S=[(StepSpan(0, 2), StepSpan(2, 3)), (StepSpan(0, 3),)],
        values_S=[
            [StateValue((1.0, 0.0), 4), StateValue((0.0, 0.0), 4)],
            [StateValue((1.0, 0.0), 0)],
        ],
        num_continuations=4,
    )


def build(is_whitened):
    found = experience()
    scores = [(-0.1, -0.2, -0.3), (-0.4, -0.5, -0.6)]
    return build_sequences(found, found.advantages(CREDIT), scores, scores, is_whitened)


def test_advantages_are_broadcast_over_their_step():
    # A = (0 − 0.5, 1 − 0) over (2, 1) tokens, and 0 − 0.5 over 3.
    assert [s.advantages_T for s in build(False)] == [(-0.5, -0.5, 1.0), (-0.5, -0.5, -0.5)]
    assert [s.old_logprobs_T for s in build(False)] == [(-0.1, -0.2, -0.3), (-0.4, -0.5, -0.6)]


def test_whitening_is_over_the_tokens_of_all_rollouts():
    flat = torch.tensor([a for s in build(True) for a in s.advantages_T], dtype=torch.float64)
    raw = torch.tensor([-0.5, -0.5, 1.0, -0.5, -0.5, -0.5], dtype=torch.float64)
    torch.testing.assert_close(flat, (raw - raw.mean()) / raw.std(unbiased=False))
    assert flat.mean().item() == pytest.approx(0, abs=1e-7)


def test_policy_loss_by_hand():
    """Two sequences of 2 and 1 tokens, π = π_old but for the last token, whose ratio is 2.

    Surrogate: −(1·3 − 1·1 + min(2·2, 1.2·2))/3 tokens = −(3 − 1 + 2.4)/3. KL (k2): ½(0.5² + 0 + 1²)
    over 2 sequences, times 0.1.
    """
    batch = collate(
        [
            TrainSequence((1,), (2, 3), (-1.0, -2.0), (-1.5, -2.0), (3.0, -1.0)),
            TrainSequence((1,), (4,), (-1.0 - math.log(2),), (-2.0,), (2.0,)),
        ],
        torch.device("cpu"),
    )
    logprobs_BT = torch.tensor([[0.0, -1.0, -2.0], [0.0, -1.0, 0.0]])
    optimization = SimpleNamespace(clip_low=0.2, clip_high=0.2)
    reference = SimpleNamespace(kl_estimator="k2", kl_coef=0.1, kl_clamp=None)
    loss = policy_loss(optimization, reference, num_tokens=3, num_sequences=2)
    total, stats = loss(batch, logprobs_BT, torch.full((2, 3), 0.3) * batch.response_mask_BT)
    expected = -(3 - 1 + 2.4) / 3 + 0.1 * 0.5 * (0.25 + 1.0) / 2
    assert total.item() == pytest.approx(expected)
    assert stats["clip_frac"].item() == pytest.approx(1 / 3)
    assert stats["ratio_mean"].item() == pytest.approx((1 + 1 + 2) / 3)
    assert stats["ratio_max"].item() == pytest.approx(2)
    assert stats["approx_kl"].item() == pytest.approx((2 - 1 - math.log(2)) / 3)
    assert stats["entropy"].item() == pytest.approx(0.3)
