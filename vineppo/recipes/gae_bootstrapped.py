"""PPO with a critic that values the end of truncated responses: partial-episode bootstrapping.

A truncated response counts as unfinished: the value of its last state replaces its reward, which
must be 0, in the advantages and in the critic's targets (Pardo et al. 2018, arXiv:1712.00378). Its
last δ is γ V(s_T) − V(s_{T−1}).
"""

from dataclasses import dataclass
from typing import Any

from vineppo.config.require import require
from vineppo.credit.gae import GaeCredit, gives_tokens
from vineppo.types import Rollout


@dataclass(frozen=True)
class BootstrappedGae(GaeCredit):
    """GAE that continues after truncated responses."""

    bootstraps = True

    def value_after(self, rollout: Rollout, predictor: str | None) -> float:
        if rollout.finish_reason != "length":
            return 0.0
        assert predictor is not None, "a predictor feeds it"
        return rollout.values_after[predictor]

    def check(self, key: str, config: Any) -> None:
        super().check(key, config)
        feeding, optimization, task = config.values.credit, config.optimization, config.task
        with_it = f"with {key}.kind {self.kind!r}"
        require(
            gives_tokens(feeding, config),
            f"values.credit must be a predictor of tokens' values, such as a critic, {with_it} (it "
            f"values the end of a response), got {feeding}",
        )
        require(task.environment is None, f"task.environment must be null {with_it}, got a table")
        require(
            task.grading.truncated_reward == 0,
            f"task.grading.truncated_reward must be 0 {with_it} (a value stands in its place), got "
            f"{task.grading.truncated_reward}",
        )
        require(
            not (optimization.mask_truncated or optimization.mask_equal_rewards),
            f"optimization.mask_truncated and .mask_equal_rewards must be false {with_it} (they "
            "would leave out what is bootstrapped), got true",
        )
