"""Values as cumulative log-ratios of an adapted model to the one that it started from.

    V(s_t) = V(s_0) + β Σ_{u<t} log π_adapted(a_u | s_u) / π_start(a_u | s_u)

For a loss with bounds the sums are logits of V. V(s_0) is the first iteration's mean reward. With
`fit` "end" the whole response's sum learns the reward: implicit process rewards (arXiv:2412.01981),
and by squared error VIMPO (arXiv:2606.20008). With "prefixes" every sum does: IPVRM
(arXiv:2604.13197), which also divides by the length. As a baseline it is as fair as a critic.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from vineppo.batching import UpdateSizes
from vineppo.config.require import require
from vineppo.config.schema import Positive, SeparateCritic, TrainConfig
from vineppo.models import load_model
from vineppo.policy import Summand
from vineppo.token_scores import ForwardOptions, TokenLogprobs
from vineppo.types import TrainBatch
from vineppo.values.heads import HEAD, ValueHead, ValueOutputs, value_objective
from vineppo.values.separate import SeparateValueModel


class Root(nn.Module):
    """V(s_0) or its logit: a critic's head without weights."""

    measure_offset = ValueHead.measure_offset

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.register_buffer("offset", torch.tensor(offset))


class LogRatios(ValueOutputs):
    """The sums before every token, or `after` it, [B, T]; only `model` trains."""

    def __init__(self, critic: Any, config: TrainConfig, path: str | None = None) -> None:
        start, form = critic.path or config.model.path, (config.model.dtype, config.model.attention)
        loaded, first = load_model(path or start, *form), load_model(start, *form)
        super().__init__(loaded.model)
        offset = getattr(self.model.config, "value_offset", math.nan)
        self.model.set_submodule(HEAD, Root(offset))
        sizes = loaded.engine_model.num_token_ids, None, critic.zero_stage == 3
        self.adapted = (TokenLogprobs(self.model, *sizes),)  # no part of a module twice
        self.start = TokenLogprobs(first.model.requires_grad_(False), *sizes)
        self.options, self.beta = ForwardOptions(config.sampling.temperature), critic.beta

    def forward(self, batch: TrainBatch, after: bool = False) -> torch.Tensor:
        adapted, start = (of(batch, self.options) for of in (*self.adapted, self.start))
        changes_BT = self.beta * (adapted["logprobs_BT"] - start["logprobs_BT"])
        after_BT = self.model.score.offset.nan_to_num(0.0) + changes_BT.cumsum(-1)
        return after_BT if after else after_BT - changes_BT


class LogRatio(SeparateValueModel):
    """The adapted model of a run; no key of its head matters."""

    @dataclass(frozen=True, kw_only=True)
    class Config(SeparateCritic):
        outputs = LogRatios
        beta: Positive = 1.0
        fit: Literal["end", "prefixes"] = "prefixes"  # the sums that learn the reward

        def check(self, key: str, config: TrainConfig) -> None:
            super().check(key, config)
            clip, rate = getattr(self.loss, "clip", None), self.head_learning_rate
            require(clip is None, f"{key}.loss.clip must be null (sums have no old value)")
            require(rate is None, f"{key}.head_learning_rate must be null (there is no head)")

    def objective(self, sizes: UpdateSizes, batch: TrainBatch) -> Summand:
        outputs_BT = self.deepspeed(batch, True)
        if self.options.fit == "end":  # no token changes the sum behind the last one
            outputs_BT = outputs_BT[:, -1:].expand_as(outputs_BT)
        return value_objective(self.options.loss, self.name, sizes, batch, outputs_BT)
