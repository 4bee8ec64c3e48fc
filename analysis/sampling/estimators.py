"""Every estimator's advantages for the same rollouts, by the project's own credit code."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import fmean
from typing import Any, Literal

from vineppo.config.schema import States, TrainConfig
from vineppo.credit import Credit, token_advantages
from vineppo.credit.gae import GaeCredit
from vineppo.credit.groups import GrpoCredit, RlooCredit
from vineppo.credit.vine import VineCredit
from vineppo.errors import UserError
from vineppo.recipes.cuts import CoinCuts, Cuts, ExpectedCuts
from vineppo.recipes.doubly_robust import DoublyRobustCredit
from vineppo.recipes.joined import JoinedCredit
from vineppo.recipes.martingale import MartingaleCredit
from vineppo.recipes.reinforce_plus_plus import ReinforcePlusPlusCredit
from vineppo.recipes.remax import RemaxCredit
from vineppo.recipes.tree import TreeCredit
from vineppo.seeds import derive_seed
from vineppo.types import CRITIC, MONTE_CARLO, Rollout, StateValue
from vineppo.values import feeding_predictor
from vineppo.values.sampled import NO_VALUE

VINE, ROBUST, JOINED = "vine_", "doubly_robust_", "joined"
# vine_K, cuts_M_K, …: a form, its numbers, whether the own return joins them.
OF_DRAWS = re.compile(r"(.+?)((?:_[1-9]\d*){1,2})(_own)?")
# tree_T_B_C…: tokens a level and branching, of the unbiased tree; or as the paper trains it.
TREE = re.compile(r"tree_([1-9]\d*)((?:_\d+)+)(_paper)?")


@dataclass(frozen=True)
class Estimator:
    """`Estimator("vine_3", VineCredit(…), MONTE_CARLO, of_draws=True)`: a name, the credit, and
    whose values it takes.

    One `of_draws` sees of the continuations at hand those alone that its credit would have had
    sampled. `returns_of` names the predictor whose continuations the values are made of, where they
    are another's.
    """

    name: str
    credit: Credit
    values_from: str | None = None
    returns_of: str | None = None
    of_draws: bool = False
    scale: float | None = None  # of the probabilities of states "expected"

    def drawn(self, rollout: Rollout) -> list[StateValue]:
        """The first K returns of the states that the credit samples; cuts are drawn by rollout."""
        asked = self.credit.monte_carlo
        assert asked is not None, "an estimator of draws"
        returns_S, number = rollout.returns_S[returns_name(rollout)], asked.num_continuations
        chosen: Collection[int] = range(len(returns_S))
        if asked.states is not None:
            seed = derive_seed(0, "cuts", *rollout.key)
            chosen = asked.states.chosen(rollout, seed, self.scale)
        return [
            replace(state, returns_K=state.returns_K[:number]) if step in chosen else NO_VALUE
            for step, state in enumerate(returns_S)
        ]

    def tokens_of(self, rollout: Rollout) -> float:
        """What was sampled for the values of a rollout's states, or their share of it."""
        if self.of_draws:
            taken_S = zip(
                self.drawn(rollout), rollout.returns_S[returns_name(rollout)], strict=True
            )
            return sum(
                taken.num_tokens * len(taken.returns_K) / len(state.returns_K)
                for taken, state in taken_S
            )
        own = MONTE_CARLO if self.credit.monte_carlo else None
        name = self.returns_of or self.values_from or own
        if name in rollout.returns_S:
            return sum(value.num_tokens for value in rollout.returns_S[name])
        return sum(rollout.steps_S.get(f"tokens/{name}", ()))


def choose_estimators(
    config: TrainConfig, rollouts: Sequence[Rollout], wanted: str, *, can_sample: bool = False
) -> list[Estimator]:
    """Those of the comma-separated names, or for "all" every one that the rollouts allow.

    rloo comes first, by which the others are measured: unbiased, and made of the rollouts alone.
    Each is the run's own where the run trains with its kind; "all" has vine of K = 1, 3, 9, … and
    of all continuations at hand. Trees are others' rollouts, which have to be sampled. Raises
    `UserError` for a name that is unknown, or whose values or greedy responses the rollouts lack.
    """
    known = _without_draws(config)
    possible = {
        name: estimator
        for name, estimator in known.items()
        if is_possible(estimator, rollouts, can_sample)
    }
    most = _num_draws(rollouts)
    num_boundaries = max(1.0, fmean(len(rollout.spans_S) - 1 for rollout in rollouts))
    if wanted == "all":
        smaller = takewhile(lambda k: k < most, (3**i for i in range(20)))
        numbers = [*smaller, most] if most else []
        return [
            *possible.values(),
            *filter(None, (_named(config, f"{VINE}{k}", num_boundaries) for k in numbers)),
        ]
    chosen = {}
    for name in wanted.split(","):
        estimator = possible.get(name) or _named(config, name, num_boundaries)
        if (
            estimator is None
            or not is_possible(estimator, rollouts, can_sample)
            or num_asked(estimator) > most
        ):
            held = [*possible, *([f"{VINE}1 to {VINE}{most}"] * (most > 0))]
            raise UserError(
                f"--estimators: {name} is not one of {', '.join(held)}, which this run's rollouts "
                "allow (vine needs values or --continuations, gae a critic, remax and trees "
                "--continuations)"
            )
        chosen[name] = estimator
    return list(chosen.values())


def estimator_named(
    config: TrainConfig, rollouts: Sequence[Rollout], name: str
) -> Estimator | None:
    """The estimator of a name, whether or not the rollouts allow it; None of an unknown one."""
    num_boundaries = max(1.0, fmean(len(rollout.spans_S) - 1 for rollout in rollouts))
    return _without_draws(config).get(name) or _named(config, name, num_boundaries)


def scaled(estimator: Estimator, rollouts: Sequence[Rollout]) -> Estimator:
    """With the scale of its states, in training that of the iteration before."""
    states = states_of_draws(estimator)
    return estimator if states is None else replace(estimator, scale=states.next_scale(rollouts))


def states_of_draws(estimator: Estimator) -> States | None:
    """Which states an estimator of draws samples; None: all, or none."""
    asked = estimator.credit.monte_carlo if estimator.of_draws else None
    return asked.states if asked else None


def num_asked(estimator: Estimator) -> int:
    """K of an estimator of draws, else 0."""
    asked = estimator.credit.monte_carlo if estimator.of_draws else None
    return asked.num_continuations if asked else 0


def is_possible(
    estimator: Estimator, rollouts: Sequence[Rollout], can_sample: bool = False
) -> bool:
    """Whether the rollouts have what the estimator looks at."""
    credit, first = estimator.credit, rollouts[0]
    if credit.shares_tokens:
        return can_sample
    if credit.samples_greedy and first.greedy_reward is None:
        return False
    has_siblings = any(rollout.key == (first.problem.id, 1) for rollout in rollouts)
    if credit.compares_rollouts and not has_siblings:
        return False
    if estimator.of_draws:
        if not _num_draws(rollouts):
            return False
        return estimator.values_from in (MONTE_CARLO, *_valued(first))
    values = credit.monte_carlo
    if values is not None and values.states is not None:  # as it was trained: never with s_0
        is_apart = credit.kind == "doubly_robust"  # the values are another's
        held = first.returns_S.get(
            MONTE_CARLO if is_apart else estimator.values_from or MONTE_CARLO
        )
        if is_apart if held is None else held[0].returns_K:
            return False
    if estimator.values_from is None:  # a user's own may look at continuations
        return credit.monte_carlo is None or MONTE_CARLO in first.returns_S
    by_step = credit.reads == "steps"
    return estimator.values_from in _valued(first, by_step)


def _valued(rollout: Rollout, by_step: bool = True) -> set[str]:
    """The predictors that have valued the rollout's tokens, or its steps."""
    columns = {*rollout.tokens_T, *(rollout.steps_S if by_step else ())}
    return {name.removeprefix("values/") for name in columns if name.startswith("values/")}


def advantages_of(estimator: Estimator, group_G: Sequence[Rollout]) -> list[list[float]]:
    """One advantage a token for each of a problem's rollouts.

    The reward is the terminal one alone: a KL penalty that a run shapes into it is left out, as are
    whitening and all else that only the loss does.
    """
    seen_G = []
    for rollout in group_G:
        rollout.tokens_T["rewards"] = (*[0.0] * (len(rollout.response_ids) - 1), rollout.reward)
        returns_S = {MONTE_CARLO: estimator.drawn(rollout)} if estimator.of_draws else {}
        seen = rollout.returns_S | returns_S
        seen_G.append(replace(rollout, values_from=estimator.values_from, returns_S=seen))
    return token_advantages(estimator.credit, seen_G)


def returns_name(rollout: Rollout) -> str:
    """Whose continuations estimators of draws see: the run's own, or else another's."""
    return MONTE_CARLO if MONTE_CARLO in rollout.returns_S else next(iter(rollout.returns_S))


def _num_draws(rollouts: Sequence[Rollout]) -> int:
    """The continuations that every state has."""
    if not rollouts[0].returns_S:
        return 0
    return min(
        len(v.returns_K) for rollout in rollouts for v in rollout.returns_S[returns_name(rollout)]
    )


def _without_draws(config: TrainConfig) -> dict[str, Estimator]:
    """What stands in every comparison, each further predictor's, and the run's own."""
    segmenter = config.credit.segmenter
    learned_from = config.critic.returns_of if config.critic else None
    estimators = [
        Estimator("rloo", RlooCredit("rloo", segmenter)),
        Estimator("grpo", GrpoCredit("grpo", segmenter, normalize_std=True)),
        Estimator(
            "reinforce_plus_plus",
            ReinforcePlusPlusCredit("reinforce_plus_plus", segmenter, gamma=1.0),
        ),
        Estimator("remax", RemaxCredit("remax", segmenter)),
        Estimator("gae", _baseline(config, "token"), CRITIC, learned_from),
    ]
    for name, table in config.values.predictors.items():
        if name not in config.continuations:
            vine = VineCredit("vine", segmenter, 0, "share", None, False)
            estimators.append(Estimator(f"{VINE}{name}", vine, name, table.returns_of))
        if table.predictor.is_martingale:
            credit = MartingaleCredit("martingale", segmenter)
            estimators.append(Estimator(f"martingale_{name}", credit, name))
    own, feeding = config.credit, feeding_predictor(config)
    is_plain = isinstance(own, VineCredit) and own.states is None and not own.own_return
    if not (is_plain and feeding == MONTE_CARLO):  # that is vine_K
        is_usual = config.values.credit in (None, own.fed_by) and own.kind != "martingale"
        kind = own.kind.rpartition(":")[2]
        name = kind if is_usual else f"{kind}_{feeding}"
        taken = config.values.predictors.get(feeding or "")
        returns_of = taken.returns_of if taken else None
        if own.kind == "doubly_robust":  # whatever its values are
            returns_of = MONTE_CARLO
        estimators.append(Estimator(name, own, feeding, returns_of))
    return {estimator.name: estimator for estimator in estimators}


def _named(config: TrainConfig, name: str, num_boundaries: float) -> Estimator | None:
    """What "all" does not hold: an estimator of draws, or "gae_NAME" = R − V̂ of a predictor.

    `num_boundaries` between the steps of a rollout, on average.
    """
    predictor = name.removeprefix("gae_")
    if predictor != name and predictor in config.values.predictors:
        table = config.values.predictors[predictor]
        return Estimator(name, _baseline(config, "step"), predictor, table.returns_of)
    if found := TREE.fullmatch(name):
        return _tree(config, found)
    found = OF_DRAWS.fullmatch(name)
    if found is None:
        return None
    segmenter, own_return = config.credit.segmenter, found[3] is not None
    *of_states, number = map(int, found[2].split("_")[1:])
    states: States | None = None
    match found[1], of_states:
        case "vine", []:
            pass
        case "cuts", [cuts]:
            states = Cuts("random", cuts)
        case "uncertain", [cuts]:
            states = Cuts("uncertain", cuts)
        case "surprisal", [cuts]:
            states = Cuts("surprisal", cuts)
        case "coin", [one_in]:
            states = CoinCuts("coin", 1 / one_in)
        case "expected" | "entropy" as form, [cuts]:
            by: Literal["probability", "entropy"] = "probability" if form == "expected" else form
            states = ExpectedCuts("expected", by, min(1.0, cuts / num_boundaries), 0.0)
        case form, [cuts] if form.startswith(JOINED) and not own_return:
            states = ExpectedCuts("expected", "probability", min(1.0, cuts / num_boundaries), 0.0)
            joined = JoinedCredit("joined", segmenter, number, "share", states)
            martingale = form.removeprefix(JOINED).removeprefix("_") or MONTE_CARLO
            return Estimator(name, joined, martingale, of_draws=True)
        case form, [one_in] if form.startswith(ROBUST) and not own_return:
            robust = DoublyRobustCredit("doubly_robust", segmenter, number, 1 / one_in)
            return Estimator(name, robust, form.removeprefix(ROBUST), of_draws=True)
        case _:
            return None
    vine = VineCredit("vine", segmenter, number, "share", states, own_return)
    return Estimator(name, vine, MONTE_CARLO, of_draws=True)


def _tree(config: TrainConfig, found: re.Match[str]) -> Estimator | None:
    branching = tuple(map(int, found[2].split("_")[1:]))
    if min(branching) < 2:
        return None
    forms: tuple[tuple[Any, Any], ...] = (("others", "by_leaves"), ("mean", "once"))
    baseline, train_shared = forms[found[3] is not None]
    credit = TreeCredit(
        "tree", config.credit.segmenter, branching, int(found[1]), baseline, False, train_shared
    )
    return Estimator(found[0], credit)


def _baseline(config: TrainConfig, level: Literal["token", "step"]) -> GaeCredit:
    """A_t = R − V(s_t): λ = γ = 1, as in the VinePPO paper's PPO."""
    return GaeCredit(
        kind="gae",
        segmenter=config.credit.segmenter,
        gamma=1.0,
        policy_lambda=1.0,
        length_adaptive_alpha=None,
        critic_lambda=1.0,
        level=level,
    )
