"""The estimators of `analysis.estimators` on a run's rollouts, by the project's own credit code."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import fmean

from analysis.estimators import BASELINE, Settings, form_of
from vineppo.config.schema import States, TrainConfig
from vineppo.credit import Credit, token_advantages
from vineppo.errors import UserError
from vineppo.plugins import Plugin
from vineppo.seeds import derive_seed
from vineppo.types import CRITIC, MONTE_CARLO, Rollout, StateValue
from vineppo.values import feeding_predictor
from vineppo.values.sampled import NO_VALUE


@dataclass(frozen=True)
class Estimator:
    """`Estimator("vine_3", credit, MONTE_CARLO, of_draws=True)`: name, credit and values.

    One `of_draws` sees only those continuations at hand that its credit would have sampled.
    `returns_of` names another predictor that supplies the continuations behind the values, if any.
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
        """Tokens sampled for the values of a rollout's states, or their share of it."""
        if self.of_draws:
            taken_S = zip(
                self.drawn(rollout), rollout.returns_S[returns_name(rollout)], strict=True
            )
            return sum(
                taken.num_tokens * len(taken.returns_K) / len(state.returns_K)
                for taken, state in taken_S
            )
        sampled = MONTE_CARLO if self.credit.monte_carlo else None
        name = self.returns_of or self.values_from or sampled
        if name in rollout.returns_S:
            return sum(value.num_tokens for value in rollout.returns_S[name])
        return sum(rollout.steps_S.get(f"tokens/{name}", ()))


def choose_estimators(
    config: TrainConfig, rollouts: Sequence[Rollout], wanted: str, *, can_sample: bool = False
) -> list[Estimator]:
    """Those of the comma-separated names, or for "all" every one that the rollouts allow.

    rloo comes first, as the reference: unbiased, and made of the rollouts alone.
    Each is the run's own where the run trains with its kind; "all" has vine of K = 1, 3, 9, … and
    of all continuations at hand. Trees have to be sampled. Raises `UserError` for an unknown name,
    and for values or greedy responses that the rollouts lack.
    """
    usual = [BASELINE, "grpo", "reinforce_plus_plus", "remax", "gae"]
    for name, table in config.values.predictors.items():
        usual += [f"vine_{name}"] * (name not in config.continuations)
        usual += [f"martingale_{name}"] * table.predictor.is_martingale
    found = [estimator_named(config, rollouts, name) for name in usual]
    known = {one.name: one for one in [*found, _own_estimator(config, rollouts)] if one is not None}
    most = _num_draws(rollouts)
    possible = {
        name: one
        for name, one in known.items()
        if is_possible(one, rollouts, can_sample) and num_asked(one) <= most
    }
    if wanted == "all":
        numbers = [*takewhile(lambda k: k < most, (3**i for i in range(20))), most]
        vines = (estimator_named(config, rollouts, f"vine_{k}") for k in numbers if k)
        return [*possible.values(), *filter(None, vines)]
    chosen = {}
    for name in wanted.split(","):
        estimator = possible.get(name) or estimator_named(config, rollouts, name)
        if (
            estimator is None
            or not is_possible(estimator, rollouts, can_sample)
            or num_asked(estimator) > most
        ):
            held = [*possible, *([f"vine_1 to vine_{most}"] * (most > 0))]
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
    own = _own_estimator(config, rollouts)
    if own is not None and own.name == name:
        return own
    form, brackets = form_of(name)
    if form.credit is None:
        return None
    boundaries = max(1.0, fmean(len(rollout.spans_S) - 1 for rollout in rollouts))
    credit = _credit(config, form.credit(boundaries, *brackets))
    values = form.values and form.values.format(*brackets)
    if form.samples == "continuations":
        return Estimator(name, credit, values, of_draws=True)
    if values in config.values.predictors:
        taken = config.values.predictors[values]
        if credit.reads_differences and not taken.predictor.is_martingale:
            return None
        return Estimator(name, credit, values, taken.returns_of)
    learned_from = config.critic.returns_of if config.critic and values == CRITIC else None
    return Estimator(name, credit, values, learned_from)


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
    """True where the rollouts have what the estimator looks at."""
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
        is_apart = credit.fed_by != MONTE_CARLO  # the values are another's
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

    The reward is the terminal one alone, without a KL penalty that a run shapes into it. Whitening
    and all else that only the loss does are left out.
    """
    seen_G = []
    for rollout in group_G:
        rollout.tokens_T["rewards"] = (*[0.0] * (len(rollout.response_ids) - 1), rollout.reward)
        seen = replace(rollout, values_from=estimator.values_from)
        if estimator.of_draws:
            drawn_S = estimator.drawn(rollout)
            values = {f"values/{MONTE_CARLO}": [state.mean for state in drawn_S]}
            seen.returns_S = rollout.returns_S | {MONTE_CARLO: drawn_S}
            seen.steps_S = rollout.steps_S | values
        seen_G.append(seen)
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


def _credit(config: TrainConfig, table: Settings) -> Credit:
    """The credit of a config's table, with the run's steps."""
    credit = Plugin("credit").parse(table | {"segmenter": {"kind": "lines"}})
    return replace(credit, segmenter=config.credit.segmenter)


def _own_estimator(config: TrainConfig, rollouts: Sequence[Rollout]) -> Estimator | None:
    """The run's own; None of plain VinePPO, which is vine_K.

    Fresh continuations are of all states, s_0 too: one that samples some draws from them.
    """
    credit, feeding, asked = config.credit, feeding_predictor(config), config.credit.monte_carlo
    if asked is not None and feeding == MONTE_CARLO:
        keys = {"identical_prefixes": asked.identical_prefixes}
        vine = {"kind": "vine", "num_continuations": asked.num_continuations}
        if credit == _credit(config, vine | keys):
            return None
    is_usual = config.values.credit in (None, credit.fed_by) and not credit.reads_differences
    kind = credit.kind.rpartition(":")[2]
    taken = config.values.predictors.get(feeding or "")
    returns_of = taken.returns_of if taken else None
    if asked and credit.fed_by != MONTE_CARLO:  # whatever its values are
        returns_of = MONTE_CARLO
    held_S = rollouts[0].returns_S.get(MONTE_CARLO)
    of_draws = bool(asked and asked.states and held_S and held_S[0].returns_K)
    name = kind if is_usual else f"{kind}_{feeding}"
    return Estimator(name, credit, feeding, returns_of, of_draws)
