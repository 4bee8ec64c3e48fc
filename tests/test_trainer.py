"""From experience to training sequences."""

import pytest
import torch

from vineppo.config.schema import LinesSegmenter, VineCredit
from vineppo.experience import Experience
from vineppo.trainer import build_sequences
from vineppo.types import Problem, Rollout, StateValue, StepSpan

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
