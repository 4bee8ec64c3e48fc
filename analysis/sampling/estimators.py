"""Every estimator's advantages for the same rollouts, by the project's own credit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean

from analysis.sampling.saved import SavedRollout
from vineppo.config.schema import (
    CreditConfig,
    GaeCredit,
    GrpoCredit,
    ReinforcePlusPlusCredit,
    RemaxCredit,
    RlooCredit,
    SegmenterConfig,
    TrainConfig,
    VineCredit,
)
from vineppo.credit import sampled_values, token_advantages
from vineppo.errors import UserError
from vineppo.types import StateValue, Trajectory

VINE = "vine_k"


@dataclass(frozen=True)
class Estimator:
    """`Estimator("vine_k3", VineCredit(…))`: what the advantages are made by, under its name."""

    name: str
    credit: CreditConfig

    @property
    def num_continuations(self) -> int:
        """K; 0 of an estimator without Monte-Carlo values."""
        return self.credit.num_continuations if isinstance(self.credit, VineCredit) else 0

    def value_of(self, value: StateValue) -> float:
        """The mean of a state's first K returns."""
        return fmean(value.returns_K[: self.num_continuations])

    def tokens_of(self, value: StateValue) -> float:
        """What those K returns took, as their share of the tokens of all."""
        return value.num_tokens * self.num_continuations / len(value.returns_K)


def choose_estimators(
    config: TrainConfig, wanted: str, max_continuations: int, has_critic: bool, has_greedy: bool
) -> list[Estimator]:
    """Those of the comma-separated names, or for "all" every one that the data allow.

    Each is the run's own where the run trains with its kind. `max_continuations` is the K of the
    values at hand, 0 without any; "all" has K = 1, 3, 9, … and that K. Raises `UserError` for a
    name that is unknown, or whose values, critic or greedy responses are not at hand.
    """
    found = _without_values(config)
    if not has_critic:
        del found["gae"]
    if not has_greedy:
        del found["remax"]
    if config.rollouts.num_samples < 2:
        del found["rloo"], found["grpo"]
    if wanted == "all":
        smaller = takewhile(lambda k: k < max_continuations, (3**i for i in range(20)))
        numbers = [*smaller, max_continuations] if max_continuations else []
        return [*found.values(), *(_vine(config, number) for number in numbers)]
    chosen = {}
    for name in wanted.split(","):
        number = name.removeprefix(VINE)
        if name != number and number.isdecimal() and 1 <= int(number) <= max_continuations:
            chosen[name] = _vine(config, int(number))
        elif name in found:
            chosen[name] = found[name]
        else:
            held = [*found, *([f"{VINE}1 to {VINE}{max_continuations}"] * (max_continuations > 0))]
            raise UserError(
                f"--estimators: {name} is not one of {', '.join(held)}, which this run's rollouts "
                "allow (vine needs values or --sample-values, gae a critic, remax --sample-values)"
            )
    return list(chosen.values())


def advantages_of(
    estimator: Estimator,
    group_G: Sequence[SavedRollout],
    critic_values: Mapping[tuple[str, int], tuple[float, ...]],
    greedy_rewards: Mapping[str, float],
) -> list[list[float]]:
    """One advantage a token for each of a problem's rollouts.

    The reward is the terminal one alone: a KL penalty that a run shapes into it is left out, as are
    whitening and all else that only the loss does.
    """
    trajectories_G = []
    for one in group_G:
        rollout = one.rollout
        state_values_S = None
        if estimator.num_continuations:
            assert one.values_S is not None, "chosen only where there are values"
            state_values_S = tuple(map(estimator.value_of, one.values_S))
        trajectories_G.append(
            Trajectory(
                rewards_T=(*[0.0] * (len(rollout.response_ids) - 1), rollout.reward),
                logprobs_T=rollout.logprobs_T,
                spans_S=one.spans_S,
                state_values_S=state_values_S,
                critic_values_T=critic_values.get((rollout.problem.id, rollout.rollout_index)),
                greedy_reward=greedy_rewards.get(rollout.problem.id),
            )
        )
    return token_advantages(estimator.credit, trajectories_G)


def _without_values(config: TrainConfig) -> dict[str, Estimator]:
    """RLOO first, by which the others are measured: unbiased, and made of the rollouts alone."""
    segmenter = config.credit.segmenter
    credits: list[CreditConfig] = [
        RlooCredit("rloo", segmenter),
        GrpoCredit("grpo", segmenter, normalize_std=True),
        ReinforcePlusPlusCredit("reinforce_plus_plus", segmenter, gamma=1.0),
        RemaxCredit("remax", segmenter),
        _monte_carlo_gae(segmenter),
    ]
    if sampled_values(config.credit) is None:
        credits.append(config.credit)
    return {credit.kind: Estimator(credit.kind, credit) for credit in credits}


def _monte_carlo_gae(segmenter: SegmenterConfig) -> GaeCredit:
    """A_t = R − V(s_t): λ = γ = 1, as in the VinePPO paper's PPO."""
    return GaeCredit(
        kind="gae",
        segmenter=segmenter,
        gamma=1.0,
        policy_lambda=1.0,
        length_adaptive_alpha=None,
        critic_lambda=1.0,
        level="token",
        segment_max_prob=None,
    )


def _vine(config: TrainConfig, number: int) -> Estimator:
    return Estimator(
        f"{VINE}{number}", VineCredit("vine", number, config.credit.segmenter, "share")
    )
