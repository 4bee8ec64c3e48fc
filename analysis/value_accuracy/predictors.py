"""The predictors of a state's value by name: what there is, in which order, and how it is made.

`critic` is the critic's value, `mc_9` the mean of 9 fresh draws, `mc_train_9` that of the first 9
returns that the training sampled, `group_mean` the mean reward of the problem's rollouts of the
iteration, `group_mean_others` without the rollout that the state is of, `constant` the mean reward
of the iteration. Any other name is that of a predictor of the run.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.truth import TruthState
from vineppo.errors import UserError

MC, MC_TRAIN = "mc", "mc_train"
StateKey = tuple[str, int, int]


@dataclass(frozen=True)
class Prediction:
    """A predicted value and how many returns it is the mean of; None where there is none."""

    value: float | None
    num_returns: int | None


@dataclass(frozen=True)
class Experience:
    """What the rollouts of an iteration left behind to predict from.

    `rewards` are those of the rollouts by problem and rollout index. `values` of the critic and of
    the run's other predictors, by name, and `returns_K` are those of `values/` by state, without
    the states that have none.
    """

    rewards: dict[str, dict[int, float]]
    values: dict[str, dict[StateKey, float]]
    returns_K: dict[StateKey, tuple[float, ...]]


def _group_mean(state: TruthState, experience: Experience) -> Prediction:
    return _mean(list(experience.rewards[state.problem_id].values()))


def _group_mean_others(state: TruthState, experience: Experience) -> Prediction:
    """Unbiased given the prompt. Within a problem it falls where the rollout's own reward rises."""
    rewards = experience.rewards[state.problem_id]
    return _mean([reward for index, reward in rewards.items() if index != state.rollout_index])


def _constant(state: TruthState, experience: Experience) -> Prediction:  # noqa: ARG001
    return _mean([reward for of in experience.rewards.values() for reward in of.values()])


_BY_NAME: dict[str, Callable[[TruthState, Experience], Prediction]] = {
    "group_mean": _group_mean,
    "group_mean_others": _group_mean_others,
    "constant": _constant,
}
_NAMES = ("critic", "mc_train_K", "mc_K", "group_mean", "group_mean_others", "constant")


def predict(predictor: str, state: TruthState, experience: Experience) -> Prediction:
    """The first K returns of each kind are used, so that mc_3 and mc_9 share three draws."""
    kind, num_draws = split_name(predictor)
    if predictor in _BY_NAME:
        return _BY_NAME[predictor](state, experience)
    if num_draws is None:
        return Prediction(experience.values.get(predictor, {}).get(state.key), None)
    returns = state.draws_D if kind == MC else experience.returns_K.get(state.key, ())
    return _mean(returns[:num_draws]) if len(returns) >= num_draws else Prediction(None, num_draws)


def split_name(predictor: str) -> tuple[str, int | None]:
    """Kind and number of draws of the state: ("mc_train", 9), ("critic", None).

    Raises `UserError` for a name that no predictor can have.
    """
    match = re.fullmatch(rf"({MC_TRAIN}|{MC})_([1-9]\d*)", predictor)
    if match:
        return match[1], int(match[2])
    if not re.fullmatch(rf"(?!{MC}_)\w[\w.-]*", predictor):
        names = ", ".join(_NAMES)
        raise UserError(f"predictors are {names} and those of the run, got {predictor!r}")
    return predictor, None


def order(predictor: str) -> tuple[int, int, str]:
    """Where a predictor stands in tables and figures, the run's own behind the others."""
    kind, num_draws = split_name(predictor)
    name = kind if num_draws is None else f"{kind}_K"
    rank = _NAMES.index(name) if name in _NAMES else len(_NAMES)
    return rank, num_draws or 0, predictor


def baseline_of(predictors: Sequence[str]) -> str | None:
    """What the others are compared with: mc_K of the K that the run trained with, or the largest.

    The training's K is the largest among `mc_train_K`: of (mc_1, mc_9, mc_27, mc_train_9) it is
    mc_9, of (critic, mc_1, mc_9) mc_9. None where there is no mc_K.
    """
    names = [split_name(predictor) for predictor in predictors]
    fresh = {num for kind, num in names if kind == MC and num is not None}
    trained = {num for kind, num in names if kind == MC_TRAIN and num in fresh}
    return f"{MC}_{max(trained or fresh)}" if fresh else None


def label(predictor: str) -> str:
    """The name in figures."""
    kind, num_draws = split_name(predictor)
    if num_draws is not None:
        return f"MC {num_draws}" if kind == MC else f"MC {num_draws}, training"
    return {"group_mean_others": "group mean, others"}.get(kind, kind.replace("_", " "))


def _mean(returns: Sequence[float]) -> Prediction:
    if not returns:
        return Prediction(None, None)
    return Prediction(sum(returns) / len(returns), len(returns))
