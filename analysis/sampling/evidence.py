"""The noise and the price of every estimator by a run's saved rollouts.

With known state values, continuations are tossed from the values or drawn from the saved ones. The
project's credit code turns them into advantages. A rollout's gradient Σ_t A_t ∇ log π has the
second moment Σ_t m_t E A_t² where scores of different tokens are orthogonal. Here m_t is the
squared length of the gradient of a token's log-probability. Less |∇J_n|² of the problem, which
measured gradients tell, it is the noise within problems.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, product
from pathlib import Path
from typing import Any

import numpy as np

from analysis.estimators import BOUND
from analysis.sampling.advantages import (
    Estimator,
    advantages_of,
    estimator_named,
    is_possible,
    num_asked,
    scaled,
)
from analysis.sampling.held_out import NAME, SCORE_SQUARES, fit_martingale, measure_gradients
from analysis.sampling.policies import policy_paths, train_config
from analysis.sampling.prices import critic_share, learning_seconds, seconds_per_token
from analysis.sampling.rollouts import groups_of, read_saved
from vineppo.config.schema import TrainConfig
from vineppo.credit.groups import rloo_advantages
from vineppo.credit.vine import step_sums
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.types import CRITIC, MONTE_CARLO, Problem, Rollout, StateValue, question_of

FITTED, SAMPLED, EXACT = "fitted martingale", "continuations", "exact"
NUM_TOSSES = 4


@dataclass(frozen=True)
class Evidence:
    """N rollouts. `terms` are summed over them: "length", "noise/NAME" and "tokens/NAME" of every
    estimator, and where gradients are measured "between", the spread of the problems' ∇J_n.

    `cost_ratios` are the price of learning from a token, in sampled tokens, by estimator.
    """

    about: dict[str, Any]
    problem_N: list[str]
    terms: dict[str, np.ndarray]
    cost_ratios: dict[str, float]


@dataclass(frozen=True)
class Known:
    """A rollout's values of its S states and of its end: `values_Z`, Z = S + 1.

    The values are the means of `returns_SK`, if continuations are saved. A martingale leaves the
    variance `residual` of the outcome unexplained.
    """

    values_Z: np.ndarray
    returns_SK: list[np.ndarray] | None = None
    residual: float = 0.0

    @property
    def errors_Z(self) -> np.ndarray:
        """Unbiased variances of the values."""
        if self.returns_SK is None:
            return np.zeros(len(self.values_Z))
        return np.array([*(np.var(of, ddof=1) / len(of) for of in self.returns_SK), 0.0])

    def tossed(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """So many returns of every state, [S, K]."""
        if self.returns_SK is not None:
            return np.array([rng.permutation(of)[:number] for of in self.returns_SK])
        chances_S1 = np.clip(self.values_Z[:-1], 0, 1)[:, None]
        return (rng.random((len(chances_S1), number)) < chances_S1).astype(float)

    def exact_noise(self, masses_S: np.ndarray) -> float:
        """Σ m (v_{i+1} − v_i)² without the values' errors, the residual spread by the masses."""
        squares_S = np.diff(self.values_Z) ** 2 - self.errors_Z[1:] - self.errors_Z[:-1]
        shares_S = masses_S / max(masses_S.sum(), 1e-12)
        return float(masses_S @ (squares_S + self.residual * shares_S))


def read_evidence(
    run_path: Path,
    num_iterations: int,
    continuations: Sequence[int],
    cuts: Sequence[int],
    coins: Sequence[int],
    cost_ratio: float | None,
    fit_iterations: int,
    num_steps: int,
    checkpoint: int | None = None,
) -> Evidence:
    """The evidence of the last `num_iterations` saved, up to the checkpoint.

    It takes problems of `num_steps` steps together; a martingale is fitted to `fit_iterations`.
    """
    config, run = train_config(run_path), RunDir(run_path)
    policies = policy_paths(run_path, config.model.path)
    last = max(policies) if checkpoint is None else checkpoint
    is_fitted = fit_iterations > 0 and last > 0
    read = read_last(run, config, max(num_iterations, fit_iterations * is_fitted), checkpoint)
    numbers = [*read][-num_iterations:]
    groups = [group for i in numbers for group in groups_of(read[i])]
    check(run_path, groups)
    if is_fitted:
        fit_martingale(config, policies[last], [*read.values()], num_iterations)
    groups = sampled_groups(groups, num_steps)
    check(run_path, groups)
    rollouts = [*chain.from_iterable(groups)]
    source, name = value_source(run_path, config, rollouts, is_fitted)
    if is_fitted:
        signal_N, between_N = measured_parts(config, policies[last], groups, source, name)
    terms, learned = noise_terms(config, groups, source, name, (continuations, cuts, coins))
    if is_fitted:
        terms = {of: t - signal_N if of.startswith("noise/") else t for of, t in terms.items()}
        terms["between"] = between_N
    # The critic's passes cost what the policy's do: its size is not looked up.
    share = critic_share(config, 1, 1)
    without = cost_ratio
    if without is None:
        without = price_of_learning(run, config, terms["length"].mean()) * (1 - share)
    about = {
        "run": run_path.resolve().name, "method": config.name, "seed": config.seed,
        "first_iteration": numbers[0], "last_iteration": numbers[-1],
        "num_problems": len({rollout.problem.id for rollout in rollouts}),
        "num_rollouts": len(rollouts), "values_by": source,
        "has_exact_scores": 2 * is_fitted, "cost_ratio": without,
    }  # fmt: skip
    names = [key.partition("/")[2] for key in terms if key.startswith("noise/")]
    ratios = {of: without / (1 - share) if of in learned else without for of in names}
    return Evidence(about, [question_of(r.problem.id) for r in rollouts], terms, ratios)


def read_last(
    run: RunDir, config: TrainConfig, num_iterations: int, checkpoint: int | None
) -> dict[int, list[Rollout]]:
    """The last iterations saved up to the checkpoint, by number."""
    saved = [i for i in run.iterations("rollouts") if checkpoint is None or i <= checkpoint]
    if config.optimization.max_redraws:
        raise UserError(
            f"{run.path} saved the problems whose rewards differ alone (optimization.max_redraws): "
            "give a run that saved all"
        )
    if not saved:
        raise UserError(f"{run.path} has no saved rollouts")
    chosen = saved[-num_iterations:]
    return {i: read_saved(run.path, i, lambda name: Problem(name, "", "")) for i in chosen}


def price_of_learning(run: RunDir, config: TrainConfig, length: float) -> float:
    """The price of learning from a token of rollouts of mean `length`, in sampled tokens."""
    metrics = run.read_metrics()
    tokens = length * config.rollouts.num_samples
    price = learning_seconds(metrics, config) / (seconds_per_token(metrics) * tokens)
    if not math.isfinite(price):
        raise UserError(
            f"{run.path} logged no times to price estimators by, or those of several value "
            "models together; give --cost-ratio"
        )
    return price


def sampled_groups(groups: Sequence[list[Rollout]], num_steps: int) -> list[list[Rollout]]:
    """Every n-th problem, so that they have at most `num_steps` steps; two at least."""
    total = sum(len(rollout.spans_S) for group in groups for rollout in group)
    every = min(math.ceil(total / num_steps), max(1, len(groups) // 2))
    numbers = count()
    return [group for group in groups if next(numbers) % every == 0]


def check(run_path: Path, groups: Sequence[Sequence[Rollout]]) -> None:
    """Refuses what no ratio to RLOO can be taken of (`UserError`)."""
    if len({group[0].problem.id for group in groups}) < 2:
        raise UserError(f"{run_path}: intervals need two problems, got one")
    if (least := min(map(len, groups))) < 2:
        raise UserError(f"{run_path}: RLOO needs two rollouts of a problem, got {least}")
    rewards = {rollout.reward for group in groups for rollout in group}
    if not rewards <= {0.0, 1.0}:
        odd = min(rewards - {0.0, 1.0})
        raise UserError(f"{run_path}: rewards must be 0 or 1, got {odd:g}")
    if all(len({rollout.reward for rollout in group}) == 1 for group in groups):
        raise UserError(f"{run_path}: no problem has both rewards, so that there is no gradient")


def value_source(
    run_path: Path, config: TrainConfig, rollouts: Sequence[Rollout], is_fitted: bool
) -> tuple[str, str]:
    """How the values along the rollouts are known, the surest first, and the predictor's name.

    A critic is none: its errors from state to state would pass for what steps decide.
    """
    for name in rollouts[0].returns_S:
        numbers = [len(v.returns_K) for r in rollouts for v in r.returns_S.get(name, ())]
        if min(numbers) >= 2 and all(name in rollout.returns_S for rollout in rollouts):
            return SAMPLED, name
    for name, table in config.values.predictors.items():
        is_known = all(f"values/{name}" in rollout.steps_S for rollout in rollouts)
        if is_known and table.predictor.is_exact:
            return EXACT, name
    if is_fitted:
        return FITTED, NAME
    raise UserError(
        f"{run_path} tells no values of states: it has neither two continuations a state, nor "
        "exact values, nor a policy of its own to fit a martingale with"
    )


def known_values(group: Sequence[Rollout], source: str, name: str) -> list[Known]:
    """The values along a problem's rollouts.

    A martingale tells changes alone: the value of the root is the mean of what it leaves of the
    other rollouts' outcomes.
    """
    if source == SAMPLED:
        returns_GSK = [[np.array(v.returns_K) for v in r.returns_S[name]] for r in group]
        return [
            Known(np.array([*map(np.mean, returns_SK), rollout.reward]), returns_SK)
            for rollout, returns_SK in zip(group, returns_GSK, strict=True)
        ]
    if source == EXACT:
        return [Known(np.array([*rollout.values_S(name), rollout.reward])) for rollout in group]
    changes_GS = [by_step(r.tokens_T[f"differences/{name}"], r) for r in group]
    left_G = [r.reward - changes.sum() for r, changes in zip(group, changes_GS, strict=True)]
    roots_G = np.array(left_G) - rloo_advantages(left_G)  # the means of the others
    residual = float(np.var(left_G, ddof=1))
    return [
        Known(root + np.concatenate([[0.0], np.cumsum(changes)]), residual=residual)
        for root, changes in zip(roots_G, changes_GS, strict=True)
    ]


def measured_parts(
    config: TrainConfig, policy_path: str, groups: Sequence[Sequence[Rollout]], source: str,
    name: str,
) -> np.ndarray:  # fmt: skip
    """`true_parts` by the policy's gradients. Exact values may lag: as a baseline alone."""
    advantages_NS = [
        np.diff(known.values_Z) if source == SAMPLED else rollout.reward - known.values_Z[:-1]
        for group in groups
        for rollout, known in zip(group, known_values(group, source, name), strict=True)
    ]
    rollouts = [*chain.from_iterable(groups)]
    return true_parts(measure_gradients(config, policy_path, rollouts, advantages_NS), groups)


def true_parts(rows_ND: np.ndarray, groups: Sequence[Sequence[Rollout]]) -> np.ndarray:
    """Terms of the means over problems of |∇J_n|² and |∇J_n|² − |mean ∇J|², by gradients [N, d].

    Products of two rollouts' gradients. Baselines of the others' rewards make |∇J_n|² up to
    1 + 1/(G − 1)² as large. |mean ∇J|² is a U-statistic: its terms are twice its projection.
    """
    signal_N, mean_N = np.zeros((2, len(rows_ND)))
    names_N = np.array([rollout.problem.id for group in groups for rollout in group])
    total_D, start = rows_ND.sum(0, dtype=np.float64), 0
    for group in groups:
        at = slice(start, start := start + len(group))
        rows_GD = rows_ND[at].astype(np.float64)
        products_G = rows_GD @ rows_GD.sum(0) - np.square(rows_GD).sum(1)
        signal_N[at] = products_G / (len(group) - 1)
        is_same_N = names_N == group[0].problem.id
        mean_N[at] = rows_GD @ (total_D - rows_ND[is_same_N].sum(0)) / (~is_same_N).sum()
    return np.stack([signal_N, signal_N - 2 * mean_N + mean_N.mean()])


def by_step(numbers_T: Sequence[float] | np.ndarray, rollout: Rollout) -> np.ndarray:
    return np.array(step_sums(list(numbers_T), rollout.spans_S), float)


def candidates(
    config: TrainConfig,
    rollouts: Sequence[Rollout],
    is_fitted: bool,
    numbers: tuple[Sequence[int], Sequence[int], Sequence[int]],
) -> list[Estimator]:
    """RLOO first, then what the rollouts allow."""
    continuations, cuts, coins = numbers
    valued = {key.removeprefix("values/") for key in rollouts[0].steps_S if key[:7] == "values/"}
    kinds = {name: table.predictor for name, table in config.values.predictors.items()}
    kinds = {name: kind for name, kind in kinds.items() if name in valued}
    martingales = [name for name, kind in kinds.items() if kind.is_martingale]
    martingales += [NAME] * (is_fitted and NAME not in martingales)
    # A run does not save what each token changed; a fit sets it.
    martingales = [name for name in martingales if f"differences/{name}" in rollouts[0].tokens_T]
    learned = [
        name
        for name, kind in kinds.items()
        if not (kind.is_exact or kind.is_martingale or kind.is_made_of_returns)
        and name not in config.continuations
    ]
    names = ["rloo", "gae"]
    for k in continuations:
        names += [f"vine_{k}", f"vine_{k}_own"]
        names += [f"cuts_{m}_{k}_own" for m in cuts] + [f"expected_{m}_{k}_own" for m in cuts]
        names += [f"joined_{m}_{k}" for m in cuts] + [f"coin_{n}_{k}_own" for n in coins]
        names += [f"joined_{name}_{m}_{k}" for name, m in product(martingales, cuts)]
        robust = [*learned, *([CRITIC] * (CRITIC in valued))]
        names += [f"doubly_robust_{name}_{n}_{k}" for name, n in product(robust, coins)]
    names += [f"gae_{name}" for name in learned] + [f"martingale_{name}" for name in martingales]
    found = [estimator_named(config, rollouts, name) for name in names]
    if found[1] is not None:  # what is saved of a critic are the values of steps
        by_step_credit = replace(found[1].credit, level="step")  # type: ignore[call-arg]
        found[1] = replace(found[1], credit=by_step_credit)
    return [one for one in found if one is not None and is_possible(one, rollouts)]


def noise_terms(
    config: TrainConfig,
    groups: Sequence[Sequence[Rollout]],
    source: str,
    name: str,
    numbers: tuple[Sequence[int], Sequence[int], Sequence[int]],
) -> tuple[dict[str, np.ndarray], set[str]]:
    """`Evidence.terms`, and which of the estimators look at a critic."""
    rollouts = [*chain.from_iterable(groups)]
    masses_NT = [masses_of(rollout) for rollout in rollouts]
    known_N = [known for group in groups for known in known_values(group, source, name)]
    rng, most = np.random.default_rng(0), max(numbers[0])
    if source == SAMPLED:
        most = min(most, *(len(of) for known in known_N for of in known.returns_SK or ()))

    def toss() -> None:
        for rollout, known in zip(rollouts, known_N, strict=True):
            returns = tossed(rollout, known, most, len(groups[0]), rng)
            rollout.returns_S[MONTE_CARLO] = returns

    toss()  # so that candidates see them
    estimators = [
        scaled(one, rollouts)
        for one in candidates(config, rollouts, source == FITTED, numbers)
        if num_asked(one) <= most
    ]
    terms = {f"noise/{one.name}": np.zeros(len(rollouts)) for one in estimators}
    for number in range(NUM_TOSSES):
        toss()
        for one in estimators if number == 0 else filter(lambda one: one.of_draws, estimators):
            found_NT = [found_T for group in groups for found_T in advantages_of(one, group)]
            noise_N = [m_T @ np.square(a_T) for m_T, a_T in zip(masses_NT, found_NT, strict=True)]
            terms[f"noise/{one.name}"] += np.array(noise_N) / (NUM_TOSSES if one.of_draws else 1)
    length_N = np.array([float(len(rollout.response_ids)) for rollout in rollouts])
    for one in estimators:
        terms[f"tokens/{one.name}"] = length_N + np.array(list(map(one.tokens_of, rollouts)))
    masses_NS = [by_step(of, rollout) for of, rollout in zip(masses_NT, rollouts, strict=True)]
    terms[f"noise/{BOUND}"] = np.array(
        [known.exact_noise(of) for known, of in zip(known_N, masses_NS, strict=True)]
    )
    terms |= {f"tokens/{BOUND}": length_N, "length": length_N}
    return terms, {one.name for one in estimators if one.values_from == CRITIC}


def tossed(
    rollout: Rollout, known: Known, number: int, group_size: int, rng: np.random.Generator
) -> tuple[StateValue, ...]:
    """Returns of every state, which take what is left of the rollout; the group shares the root's.

    10 tokens in steps from 0 and 4, K = 2, G = 4: 5 tokens and 12.
    """
    length = len(rollout.response_ids)
    lefts = [length / group_size, *(length - span.start for span in rollout.spans_S[1:])]
    return tuple(
        StateValue(tuple(returns_K.tolist()), number * left)  # type: ignore[arg-type]
        for returns_K, left in zip(known.tossed(number, rng), lefts, strict=True)
    )


def masses_of(rollout: Rollout) -> np.ndarray:
    """Squared lengths of the tokens' scores, or 1 − π(a), which has the same mean."""
    if SCORE_SQUARES in rollout.tokens_T:
        return np.array(rollout.tokens_T[SCORE_SQUARES])
    return 1 - np.exp(rollout.logprobs_T)
