"""A critic that predicts a histogram of the reward: HL-Gauss (arXiv:2403.03950).

    V(s) = Σ_i p_i z_i,   loss = −Σ_i q_i(R) log p_i,   q_i(R) = Φ((e_{i+1} − R)/σ) − Φ((e_i − R)/σ)

with p the softmax of the head's outputs, z the bins' centres and e their edges. The bins reach 4σ
beyond the rewards' bounds, so that q(R) has the mean R.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from vineppo.batching import UpdateSizes
from vineppo.config.require import require
from vineppo.config.schema import Count, CrossEntropy, Positive, SeparateCritic, TrainConfig
from vineppo.policy import Summand
from vineppo.types import TrainBatch
from vineppo.values.heads import ValueOutputs, load_classifier
from vineppo.values.separate import SeparateValueModel


@dataclass(frozen=True)
class Histogram(CrossEntropy):
    kind: Literal["hl_gauss"]  # type: ignore[assignment]
    num_bins: Count = 51
    sigma: Positive = 0.75  # bins, as in the paper

    def edges(self, like: torch.Tensor) -> torch.Tensor:
        """[bins + 1]. From 0 to 1, 10 bins with σ = 0.5 are 1/6 wide: from −1/3 to 4/3."""
        pad = 4 * self.sigma * (self.high - self.low) / (self.num_bins - 8 * self.sigma)
        return torch.linspace(self.low - pad, self.high + pad, self.num_bins + 1).to(like)

    def targets(self, returns: torch.Tensor) -> torch.Tensor:
        edges = self.edges(returns)
        scaled = (edges - returns[..., None]) / (self.sigma * (edges[1] - edges[0]))
        return torch.special.ndtr(scaled).diff(dim=-1)


class Histograms(ValueOutputs):
    @classmethod
    def load(cls, critic: Any, config: TrainConfig, path: str | None = None) -> ValueOutputs:
        of = path or critic.path or config.model.path, config.model, critic.head_init, config.seed
        return cls(load_classifier(*of, num_labels=critic.loss.num_bins), critic.loss)

    def read(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs.softmax(-1) @ self.loss.edges(outputs).unfold(0, 2, 1).mean(1)


class HlGauss(SeparateValueModel):
    @dataclass(frozen=True, kw_only=True)
    class Config(SeparateCritic):
        outputs = Histograms.load
        loss: Histogram = Histogram("hl_gauss", 0, 1)

        def check(self, key: str, config: TrainConfig) -> None:
            super().check(key, config)
            least, bins = 8 * self.loss.sigma, self.loss.num_bins
            require(bins > least, f"{key}.loss.num_bins must be above {least:g}, got {bins}")
            require(self.head_init != "mean", f"{key}.head_init must be 'normal' or 'zero'")

    def objective(self, sizes: UpdateSizes, batch: TrainBatch) -> Summand:
        outputs, count = self.deepspeed(batch), max(sizes.response_tokens, 1)
        targets = self.options.loss.targets(batch[f"targets/{self.name}"])
        losses_BT = -(targets * outputs.log_softmax(-1)).sum(-1) * batch.response_mask_BT
        mean = (self.outputs.read(outputs) * batch.response_mask_BT).sum() / count
        total = losses_BT.sum() / count
        return total, {"loss": total, "clip_frac": torch.zeros_like(total), "value_mean": mean}
