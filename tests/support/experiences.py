"""An iteration's experience of known numbers, and the demo's config with changes."""

from dataclasses import replace
from typing import Any

import torch

from vineppo.config.schema import LinesSegmenter, TrainConfig, VineCredit
from vineppo.experience import Experience
from vineppo.sequences import Scores
from vineppo.types import Problem, Rollout, StateValue, StepSpan

VINE = VineCredit("vine", 2, LinesSegmenter("lines"), "share")
CPU = torch.device("cpu")


def experience(**changes: Any) -> Experience:
    """Two rollouts of one problem: steps of 2 and 1 tokens, rewarded; one step of 3 tokens, cut."""

    def rollout(index, response_ids, logprobs_T, finish_reason, reward):
        return Rollout(
            Problem("p", "q", "a"), index, (1, 12), response_ids, logprobs_T, finish_reason, "",
            reward,
        )  # fmt: skip

    found = Experience(
        rollouts=[
            rollout(0, (7, 4, 5), (-0.25, -0.5, -1.5), "stop", 1.0),
            rollout(1, (6, 7, 8), (-1.0, -2.0, -0.125), "length", 0.0),
        ],
        spans_S=[(StepSpan(0, 2), StepSpan(2, 3)), (StepSpan(0, 3),)],
        values_S=[
            [StateValue((1.0, 0.0), 4), StateValue((0.0, 0.0), 4)],
            [StateValue((1.0, 0.0), 0)],
        ],
        num_continuations=4,
        greedy_rewards={},
        greedy_tokens=0,
        ref_logprobs=None,
    )
    return replace(found, **changes)


def scores(values=None, kl=((0.5, -0.25, 12.0), (1.0, 0.0, 2.0))) -> Scores:
    """The trainer's probability of the very first token is twice the engine's."""
    return Scores(
        trainer=[(-0.25 + 0.6931471805599453, -0.5, -1.5), (-1.0, -2.0, -0.125)],
        reference=[(-1.0, -2.0, -3.0), (-4.0, -5.0, -6.0)],
        kl=list(kl),
        values=values,
    )


def changed(config: TrainConfig, **tables: Any) -> TrainConfig:
    """`config` with keys of its tables changed: `changed(config, reference={"kl_coef": 1.0})`."""
    found = {
        name: replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in tables.items()
    }
    return replace(config, **found)
