"""A critic that predicts a histogram of the return: HL-Gauss (arXiv:2403.03950).

    V(s) = Σ_i p_i z_i,   loss = −Σ_i q_i(R) log p_i,   q_i(R) = Φ((e_{i+1} − R)/σ) − Φ((e_i − R)/σ)

p is the softmax of the head's outputs; z are the bins' centres and e their edges, in units of the
loss's bounds. The bins reach 4σ beyond the bounds, so q(R) has almost exactly the mean R. A saved
model's config.json has the edges as `value_edges`; they replace the sigmoid of `value_range`.
"""

from dataclasses import dataclass
from typing import Any

import torch

from vineppo.batching import UpdateSizes
from vineppo.config.require import require
from vineppo.config.schema import Count, Positive, SeparateCritic, TrainConfig
from vineppo.policy import Summand
from vineppo.token_scores import hidden_before_tokens, spread
from vineppo.types import TrainBatch
from vineppo.values.heads import VALUE_NUMBERS, ValueOutputs, load_classifier, values_of
from vineppo.values.separate import SeparateValueModel


def edges(num_bins: int, sigma: float) -> torch.Tensor:
    """[bins + 1]; `sigma` in bins. 10 bins with 0.5 are 1/6 wide: from −1/3 to 4/3."""
    pad = 4 * sigma / (num_bins - 8 * sigma)
    return torch.linspace(-pad, 1 + pad, num_bins + 1)


def mean(scores: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Σ p z within the bounds, in units of them."""
    means = scores.softmax(-1) @ edges.unfold(0, 2, 1).mean(-1).to(scores)
    return means.clamp(1e-4, 1 - 1e-4)


def histogram(returns: torch.Tensor, edges: torch.Tensor, sigma: float) -> torch.Tensor:
    """q(R), [..., bins], of returns in units of the bounds."""
    scaled = (edges - returns[..., None]) / (sigma * (edges[1] - edges[0]))
    return torch.special.ndtr(scaled).diff(dim=-1)


class Histograms(ValueOutputs):
    """The logit of V between the bounds, [B, T], and with `bins` also the scores, [B, T, bins]."""

    def __init__(self, critic: Any, config: TrainConfig, path: str | None = None) -> None:
        of = path or critic.path or config.model.path, config.model, critic.head_init, config.seed
        super().__init__(load_classifier(*of, num_labels=critic.num_bins))
        self.edges = edges(critic.num_bins, critic.sigma)
        self.model.config.value_edges = self.edges.tolist()

    def forward(self, batch: TrainBatch, bins: bool = False) -> Any:
        scores_N = self.model.score(hidden_before_tokens(self.model.base_model, batch)).float()
        outputs = spread(torch.logit(mean(scores_N, self.edges)), batch)
        return (outputs, spread(scores_N, batch)) if bins else outputs


class HlGauss(SeparateValueModel):
    outputs: Histograms

    @dataclass(frozen=True, kw_only=True)
    class Config(SeparateCritic):
        outputs = Histograms
        num_bins: Count = 51
        sigma: Positive = 0.75  # bins, as in the paper

        def check(self, key: str, config: TrainConfig) -> None:
            super().check(key, config)
            least = 8 * self.sigma
            require(self.loss.bounds is not None, f"{key}.loss.kind must be 'cross_entropy'")
            require(self.head_init != "mean", f"{key}.head_init must be 'normal' or 'zero'")
            require(
                self.num_bins > least,
                f"{key}.num_bins must be above 8 sigma = {least:g}, got {self.num_bins}",
            )

    def objective(self, sizes: UpdateSizes, batch: TrainBatch) -> Summand:
        outputs_BT, scores = self.deepspeed(batch, True)
        low, high = self.options.loss.bounds
        shares_BT = (batch[f"targets/{self.name}"] - low) / (high - low)
        targets = histogram(shares_BT, self.outputs.edges.to(scores), self.options.sigma)
        losses_BT = -(targets * scores.log_softmax(-1)).sum(-1)
        mask_BT, count = batch.response_mask_BT, max(sizes.response_tokens, 1)
        total = (losses_BT * mask_BT).sum() / count
        value = (values_of(outputs_BT, self.options.loss) * mask_BT).sum() / count
        return total, dict(zip(VALUE_NUMBERS, (total, torch.zeros_like(total), value), strict=True))
