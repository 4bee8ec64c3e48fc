"""Several critics on disjoint rollouts; their mean is the value: AsyPPO (arXiv:2510.01656).

    V(s) = 1/M Σ_m V_m(s),   V_m trained on the rollouts with index ≡ m (mod M) of every problem

M critics that start from one model stay apart by their data alone. A smaller model (`path`) makes
them cost less together than one of the policy's size. Their spread, the standard deviation, is a
metric, and as in the paper it may mask. The share `agreed` of an iteration's tokens with the least
spread has the advantage 0. The share `disputed` with the most has no entropy bonus.

As a baseline it is fair, as each critic is: it is trained after it has valued.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema import Count, SeparateCritic, Share, TrainConfig
from vineppo.models import LoadedModel
from vineppo.policy import Policy
from vineppo.rollouts import Prompt
from vineppo.types import Rollout, predictor_key
from vineppo.values import ValuePredictor, feeding_predictor
from vineppo.values.separate import FrozenValueModel, SeparateValueModel, ValueModel


class MeanValues(ValuePredictor):
    """The mean of its members' values, which have columns of their own: "values/NAME_0", …."""

    gives = "tokens"
    members: Sequence[ValueModel]

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        self.estimate_branches(rollouts, rollouts)

    def estimate_branches(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:
        for member in self.members:
            member.estimate_branches(branches, rollouts)
        self.set_values(branches, [[fmean(v) for v in self._of_members(r)] for r in branches])

    def _of_members(self, rollout: Rollout) -> list[tuple[float, ...]]:
        """The values of all members at every token."""
        columns = [rollout.values_T(member.name) for member in self.members]
        return list(zip(*columns, strict=True))


class Ensemble(MeanValues):
    """The critics of a run."""

    takes_turns = True
    members: Sequence[SeparateValueModel]

    @dataclass(frozen=True, kw_only=True)
    class Config(SeparateCritic):
        num: Count = 2  # of critics, at most as many as rollouts.num_samples
        # Shares of an iteration's tokens, by how far the critics differ: those that they agree on
        # most train nothing, those that they agree on least get no entropy bonus.
        agreed: Share = 0.0
        disputed: Share = 0.0

        def check(self, key: str, config: TrainConfig) -> None:
            super().check(key, config)
            num_samples = config.rollouts.num_samples
            require(
                self.num <= num_samples,
                f"{key}.num must be at most rollouts.num_samples = {num_samples}, got {self.num} "
                "(each critic has its share of a problem's rollouts)",
            )
            feeding = feeding_predictor(config)
            require(
                key == predictor_key(feeding or "") or not (self.agreed or self.disputed),
                f"{key}.agreed and .disputed must be 0 where other values feed the estimator (a "
                "critic beside them is only measured)",
            )

    def __init__(self, name: str, config: TrainConfig, options: Any, loaded: LoadedModel) -> None:
        super().__init__(name, config, options)
        names = [f"{name}_{m}" for m in range(options.num)]
        self.members = [SeparateValueModel(member, config, options, loaded) for member in names]

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> ValuePredictor | None:
        place = None if directory is None else directory / name
        names = [f"{name}_{m}" for m in range(options.num)]
        members = [FrozenValueModel.at_checkpoint(m, config, options, place) for m in names]
        found = [member for member in members if member is not None]
        return FrozenEnsemble(name, config, options, found) if len(found) == options.num else None

    def check_problems(self, prompts_P: Sequence[Prompt]) -> None:
        self.members[0].check_problems(prompts_P)

    def start(self, policy: Policy) -> None:
        for member in self.members:
            member.start(policy)

    def prepare_update(self, rollouts: Sequence[Rollout]) -> None:
        """The masks of the policy's loss. If many tokens are at a bound, they are not masked."""
        spreads = [[pstdev(values) for values in self._of_members(one)] for one in rollouts]
        ordered = sorted(chain.from_iterable(spreads))
        last = len(ordered) - 1
        least = ordered[round(self.options.agreed * last)]
        most = ordered[round((1 - self.options.disputed) * last)]
        for rollout, spread_T in zip(rollouts, spreads, strict=True):
            columns = rollout.tokens_T
            columns["loss_advantages"] = [
                0.0 if spread < least else advantage
                for spread, advantage in zip(spread_T, columns["loss_advantages"], strict=True)
            ]
            columns["is_without_bonus"] = [spread > most for spread in spread_T]

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:
        """Each member's on its own share; means of their metrics, and of their deviation."""
        of_members = []
        for m, member in enumerate(self.members):
            share = [r for r in rollouts if r.rollout_index % len(self.members) == m]
            member.prepare_update(share)
            metrics = member.update(share, iteration)
            of_members.append({k.removeprefix(member.metrics_group): v for k, v in metrics.items()})
        spreads = [pstdev(values) for r in rollouts for values in self._of_members(r)]
        return {
            **{
                f"{self.metrics_group}{key}": fmean(metrics[key] for metrics in of_members)
                for key in of_members[0]
            },
            f"{self.metrics_group}/spread": fmean(spreads),
        }

    def save_hf(self, directory: Path) -> None:
        for member in self.members:
            member.save_hf(directory / member.name)

    def save_state(self, directory: Path) -> None:
        for member in self.members:
            member.save_state(directory / member.name)

    def load_state(self, directory: Path) -> None:
        for member in self.members:
            member.load_state(directory / member.name)


class FrozenEnsemble(MeanValues):
    """As a checkpoint has it, or as training starts."""

    def __init__(
        self, name: str, config: TrainConfig, options: Any, members: Sequence[FrozenValueModel]
    ) -> None:
        super().__init__(name, config, options)
        self.members = members
        self.num_weights = sum(member.num_weights for member in members)
