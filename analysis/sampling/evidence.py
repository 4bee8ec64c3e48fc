"""What a run's saved rollouts say of the noise and the price of every estimator, by rollout."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from analysis.sampling.held_out import NAME, SCORE_SQUARES, fit_martingale, measure_gradients
from analysis.sampling.policies import policy_paths, train_config
from analysis.sampling.prices import critic_share, learning_seconds, seconds_per_token
from analysis.sampling.rollouts import groups_of, read_saved
from analysis.stats import credit_noise
from vineppo.config.schema import (
    MonteCarloValues,
    TrainConfig,
)
from vineppo.credit.groups import rloo_advantages
from vineppo.credit.vine import step_sums
from vineppo.errors import UserError
from vineppo.recipes.cuts import ExpectedCuts
from vineppo.recipes.martingale import shrunk_advantages
from vineppo.recipes.pooled import Pooled
from vineppo.recipes.shrunk import Shrunk
from vineppo.recipes.shrunk_mean import ShrunkMean
from vineppo.recipes.smoothed import Smoothed
from vineppo.run_dir import RunDir
from vineppo.seeds import derive_seed
from vineppo.types import CRITIC, Problem, Rollout
from vineppo.values.predictor import ValuePredictor

FITTED, SAMPLED, EXACT, SAVED = "fitted martingale", "continuations", "exact", "saved martingale"
SHRUNK, REPLAY = "rloo_shrunk", 10  # as configs/lib/recipes.libsonnet has it
TOSSED, NUM_TOSSES = "tossed", 4
SMOOTHED = Smoothed.Config("smoothed", TOSSED, change=0.2, direction="causal")
DECISIVE = 0.1  # the change of value from which on a step decides


@dataclass(frozen=True)
class Evidence:
    """N rollouts. `terms` are summed over them: "length", "noise/NAME" and "tokens/NAME" of every
    estimator; where values tell, "steps" with "decisive" of them, and of a martingale what it has
    "left" of the outcomes' "variance" within problems.

    `cost_ratios` are the price of learning from a token, in sampled tokens, by estimator.
    """

    about: dict[str, Any]
    problem_N: list[str]
    terms: dict[str, np.ndarray]
    cost_ratios: dict[str, float]


def read_evidence(
    run_path: Path,
    num_iterations: int,
    continuations: Sequence[int],
    cuts: Sequence[int],
    coins: Sequence[int],
    cost_ratio: float | None,
    fit_iterations: int,
    num_gradients: int,
    checkpoint: int | None = None,
) -> Evidence:
    """Of the last `num_iterations` that are saved, up to the checkpoint; a martingale is fitted to
    `fit_iterations` of them, or more, and the lengths of scores are measured on as many problems as
    have `num_gradients` steps. Raises `UserError` where they tell nothing."""
    config, run = train_config(run_path), RunDir(run_path)
    policies = policy_paths(run_path, config.model.path)
    last = max(policies) if checkpoint is None else checkpoint
    if last not in policies:
        held = ", ".join(map(str, policies))
        raise UserError(f"--checkpoint: {run_path} has {held}, not {last}")
    saved = [i for i in run.iterations("rollouts") if checkpoint is None or i <= checkpoint]
    if config.optimization.max_redraws:
        raise UserError(
            f"{run_path} saved the problems whose rewards differ alone (optimization.max_redraws): "
            "give a run that saved all"
        )
    if not saved:
        raise UserError(f"{run_path} has no saved rollouts")
    is_fitted = fit_iterations > 0 and last > 0
    num_fitted = max(num_iterations, fit_iterations) if is_fitted else 0
    saved = saved[-max(num_iterations + REPLAY, num_fitted) :]
    numbers = saved[-num_iterations:]
    read = [read_saved(run_path, i, lambda name: Problem(name, "", "")) for i in saved]
    iterations = read[-num_iterations:]
    groups_I = [groups_of(of_iteration) for of_iteration in iterations]
    groups = [*chain.from_iterable(groups_I)]
    rollouts = [*chain.from_iterable(groups)]
    check(run_path, groups)
    shrunk = ShrunkMean(SHRUNK, config, ShrunkMean.Config("shrunk_mean", REPLAY))
    for of_iteration in read:  # the first of them may be earlier
        shrunk.estimate(of_iteration)
        shrunk.update(of_iteration, 0)
    if is_fitted:
        fit_martingale(config, policies[last], read[-num_fitted:], num_iterations)
        if num_gradients:
            groups_I = sampled_groups(groups_I, num_gradients)
            groups = [*chain.from_iterable(groups_I)]
            check(run_path, groups)
            rollouts = [*chain.from_iterable(groups)]
            measure_gradients(config, policies[last], rollouts)
    source, name = value_source(run_path, config, rollouts, is_fitted)
    found = [
        one for group in groups for one in group_terms(group, source, name, continuations, cuts)
    ]
    rows, paths = [row for row, _ in found], [path for _, path in found]
    add_expected(rows, rollouts, paths, continuations, cuts)
    add_made(rows, config, groups_I, paths, continuations)
    add_coins(rows, config, rollouts, paths, continuations, coins)
    learned_from = config.critic.returns_of if config.critic else None
    for row, rollout in zip(rows, rollouts, strict=True):
        if "noise/gae" in row:
            learned = rollout.returns_S.get(learned_from or "", ())
            row["tokens/gae"] += sum(state.num_tokens for state in learned)
    terms = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    learning = cost_ratio
    if learning is None:
        learning = price_of_learning(run, config, terms["length"].mean())
    # The critic's passes cost what the policy's do: its size is not looked up.
    share = critic_share(config, 1, 1)
    without = learning * (1 - share) if cost_ratio is None else learning
    names = [key.partition("/")[2] for key in terms if key.startswith("noise/")]
    ratios = {name: without / (1 - share) if name == "gae" else without for name in names}
    about = {
        "run": run_path.resolve().name, "method": config.name, "seed": config.seed,
        "first_iteration": numbers[0], "last_iteration": numbers[-1],
        "num_problems": len({rollout.problem.id for rollout in rollouts}),
        "num_rollouts": len(rollouts), "values_by": source,
        "has_exact_scores": is_fitted * (1 + (num_gradients > 0)), "cost_ratio": without,
    }  # fmt: skip
    return Evidence(about, [rollout.problem.id for rollout in rollouts], terms, ratios)


def price_of_learning(run: RunDir, config: TrainConfig, length: float) -> float:
    """Of a token of rollouts of mean `length`, in sampled tokens, by the run's seconds."""
    metrics = run.read_metrics()
    tokens = length * config.rollouts.num_samples
    price = learning_seconds(metrics, config) / (seconds_per_token(metrics) * tokens)
    if not math.isfinite(price):
        raise UserError(
            f"{run.path} logged no times to price estimators by, or those of several value "
            "models together; give --cost-ratio"
        )
    return price


def sampled_groups(
    groups_I: Sequence[Sequence[list[Rollout]]], num_steps: int
) -> list[list[list[Rollout]]]:
    """Every n-th problem, by iteration, so that they have at most so many steps; two at least."""
    groups = [*chain.from_iterable(groups_I)]
    total = sum(len(rollout.spans_S) for group in groups for rollout in group)
    every = min(math.ceil(total / num_steps), max(1, len(groups) // 2))
    numbers = count()
    return [[group for group in of_it if next(numbers) % every == 0] for of_it in groups_I]


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
    known = {
        name: own
        for name, own in config.values.predictors.items()
        if all(f"values/{name}" in rollout.steps_S for rollout in rollouts)
    }
    for name, own in known.items():
        if own.predictor.is_exact:
            return EXACT, name
    if is_fitted:
        return FITTED, NAME
    for name, own in known.items():
        if own.predictor.is_martingale:
            return SAVED, name
    raise UserError(
        f"{run_path} tells no values of states: it has neither two continuations a state, nor "
        "exact or martingale values, nor a policy of its own to fit them with"
    )


def group_terms(
    group: Sequence[Rollout],
    source: str,
    name: str,
    continuations: Sequence[int],
    cuts: Sequence[int],
) -> list[tuple[dict[str, float], credit_noise.Path]]:
    """`Evidence.terms` of a problem's rollouts, and their values."""
    rewards_G = [rollout.reward for rollout in group]
    advantages_G = rloo_advantages(rewards_G)
    differences_G = [differences_of(rollout, source, name) for rollout in group]
    residuals_G = [
        reward - float(differences.sum()) if differences is not None else math.nan
        for reward, differences in zip(rewards_G, differences_G, strict=True)
    ]
    roots_G = [root_of(rollout, name) for rollout in group]
    rows = []
    for index, rollout in enumerate(group):
        masses_T = masses_of(rollout)
        masses_S = by_step(masses_T, rollout)
        path = path_of(rollout, masses_S, source, name, differences_G, residuals_G, index)
        length, differences = float(path.num_tokens), differences_G[index]
        total = float(masses_S.sum())
        noise = {"rloo": total * advantages_G[index] ** 2}
        noise[SHRUNK] = total * (rewards_G[index] - rollout.values_S(SHRUNK)[0]) ** 2
        tokens: dict[str, float] = {}
        row = {"length": length}
        if differences is not None:
            rest = rloo_advantages(residuals_G)[index]
            left = shrunk_advantages(
                [e - root for e, root in zip(residuals_G, roots_G, strict=True)]
            )[index]
            masses = masses_S if source == SAVED else masses_T
            noise["martingale"] = float(masses @ (differences + left) ** 2)
            row |= {
                "own": float(masses @ differences**2),
                "residual": float(np.var(residuals_G, ddof=1)),
            }
            row |= {
                "left": residuals_G[index] * rest,
                "variance": rewards_G[index] * advantages_G[index],
            }
            steps = differences_of_steps(rollout, differences, source)
        if source == EXACT:
            steps = np.diff(path.values_Z)
        if differences is not None or source == EXACT:
            row |= {"steps": len(steps), "decisive": float((abs(steps) >= DECISIVE).sum())}
        if f"values/{CRITIC}" in rollout.steps_S:
            errors_S = rollout.reward - np.array(rollout.values_S(CRITIC))
            noise["gae"] = float(masses_S @ errors_S**2)
        for k in continuations:
            for key, with_own in ((f"vine_{k}", False), (f"vine_{k}_own", True)):
                noise[key] = credit_noise.vine_noise(path, k, with_own=with_own)
                tokens[key] = credit_noise.vine_tokens(path, k)
        for number in cuts:
            for k in continuations:
                key = f"cuts_{number}_{k}"
                noise[key] = credit_noise.cuts_noise(path, number, k)
                tokens[key] = credit_noise.cuts_tokens(path, number, k)
        noise["exact"] = credit_noise.exact_noise(path)
        row |= {f"noise/{key}": number for key, number in noise.items()}
        row |= {f"tokens/{key}": length + tokens.get(key, 0.0) for key in noise}
        rows.append((row, path))
    return rows


def add_expected(
    rows: Sequence[dict[str, float]],
    rollouts: Sequence[Rollout],
    paths: Sequence[credit_noise.Path],
    continuations: Sequence[int],
    cuts: Sequence[int],
) -> None:
    """Cuts by expectation, M a rollout on average (`vineppo/recipes/cuts.py`), alone and joined.

    Of a martingale the rows hold the part of its "own" steps and the "residual"; they are taken
    out.
    """
    num_boundaries = max(1.0, fmean(len(rollout.spans_S) - 1 for rollout in rollouts))
    for number in cuts:
        states = ExpectedCuts("expected", "probability", min(1.0, number / num_boundaries), 0.0)
        scale = states.next_scale(rollouts)
        for row, rollout, path in zip(rows, rollouts, paths, strict=True):
            chosen = states.chosen(rollout, derive_seed(0, "cuts", *rollout.key), scale)
            for k in continuations:
                key = f"expected_{number}_{k}"
                noises = {
                    key: credit_noise.chosen_noise(path, chosen, k),
                    f"joined_{number}_{k}": credit_noise.joined_noise(path, chosen, k),
                }
                if "residual" in row:
                    left = credit_noise.joined_noise(path, chosen, k, row["residual"])
                    noises[f"joined_martingale_{number}_{k}"] = row["own"] + left
                tokens = row["length"] + credit_noise.chosen_tokens(path, chosen, k)
                row |= {f"noise/{key}": noise for key, noise in noises.items()}
                row |= {f"tokens/{key}": tokens for key in noises}
    for row in rows:
        row.pop("own", None)
        row.pop("residual", None)


def add_made(
    rows: Sequence[dict[str, float]],
    config: TrainConfig,
    groups_I: Sequence[Sequence[Sequence[Rollout]]],
    paths: Sequence[credit_noise.Path],
    continuations: Sequence[int],
) -> None:
    """What is made of K continuations of every state, of saved ones or tosses, `NUM_TOSSES` times.

    "pooled" are differences, "shrunk" (to siblings) and "smoothed" (causal) baselines of the
    outcome: the unbiased ones. What rollouts share is drawn once for each, and not pooled. Of fewer
    than K saved ones nothing is told.
    """
    values = replace(
        config.values, predictors={TOSSED: MonteCarloValues("monte_carlo", 1, "share", None)}
    )
    config = replace(config, values=values)
    makers: tuple[ValuePredictor, ...] = (
        Pooled("pooled", config, Pooled.Config("pooled", TOSSED)),
        Shrunk("shrunk", config, Shrunk.Config("shrunk", TOSSED, toward="siblings")),
        Smoothed("smoothed", config, SMOOTHED),
    )
    # An iteration's problems are those that a weight of "shrunk" is chosen by.
    iterations = [[*chain.from_iterable(groups)] for groups in groups_I if groups]
    rollouts = [*chain.from_iterable(iterations)]
    most = min(path.most_draws for path in paths)
    for k in (k for k in continuations if k <= most):
        rng = np.random.default_rng(0)
        for _ in range(NUM_TOSSES):
            for rollout, path in zip(rollouts, paths, strict=True):
                rollout.returns_S[TOSSED] = tuple(credit_noise.drawn(path, k, rng))
            for maker, of_iteration in product(makers, iterations):
                maker.estimate(of_iteration)
            for row, rollout, path in zip(rows, rollouts, paths, strict=True):
                for maker in makers:
                    values_S = rollout.values_S(maker.name)
                    if maker.name == "pooled":
                        noise = credit_noise.differences_noise(path, values_S, k)
                    else:
                        noise = credit_noise.baseline_noise(path, values_S, rollout.reward)
                    key = f"noise/{maker.name}_{k}"
                    row[key] = row.get(key, 0.0) + noise / NUM_TOSSES
        for row in rows:
            row |= {f"tokens/{maker.name}_{k}": row[f"tokens/vine_{k}"] for maker in makers}


def add_coins(
    rows: Sequence[dict[str, float]],
    config: TrainConfig,
    rollouts: Sequence[Rollout],
    paths: Sequence[credit_noise.Path],
    continuations: Sequence[int],
    coins: Sequence[int],
) -> None:
    """Every state with probability 1/N; the doubly robust on values that the run saved.

    And those values as baselines: of what has learned, a critic's is there already.
    """
    learned = learned_values(config, rollouts[0])
    for row, rollout, path in zip(rows, rollouts, paths, strict=True):
        for name, returns_of in learned.items():
            read = sum(state.num_tokens for state in rollout.returns_S.get(returns_of or "", ()))
            if name != CRITIC:
                noise = credit_noise.baseline_noise(path, rollout.values_S(name), rollout.reward)
                row |= {f"noise/gae_{name}": noise, f"tokens/gae_{name}": row["length"] + read}
        for one_in, k in product(coins, continuations):
            tokens = row["length"] + credit_noise.coin_tokens(path, 1 / one_in, k)
            noises = {f"coin_{one_in}_{k}": credit_noise.coin_noise(path, 1 / one_in, k)}
            for name in learned:
                noises[f"doubly_robust_{name}_{one_in}_{k}"] = credit_noise.robust_noise(
                    path, rollout.values_S(name), rollout.reward, 1 / one_in, k
                )
            row |= {f"noise/{name}": noise for name, noise in noises.items()}
            row |= {f"tokens/{name}": tokens for name in noises}


def learned_values(config: TrainConfig, rollout: Rollout) -> dict[str, str | None]:
    """The saved predictors of steps that are fair baselines, and whose returns they learn from.

    What is merely made of continuations is told for every K, and exact values and shrunk means are
    told as well.
    """

    def is_told(name: str, kind: type[ValuePredictor]) -> bool:
        is_made = name in config.continuations or kind.is_made_of_returns
        return is_made or kind.is_exact or kind.is_martingale or issubclass(kind, ShrunkMean)

    return {
        name: table.returns_of
        for name, table in config.predictors.items()
        if f"values/{name}" in rollout.steps_S and not is_told(name, table.predictor)
    }


def masses_of(rollout: Rollout) -> np.ndarray:
    """Squared lengths of the tokens' scores, or 1 − π(a), which has the same mean."""
    if SCORE_SQUARES in rollout.tokens_T:
        return np.array(rollout.tokens_T[SCORE_SQUARES])
    return 1 - np.exp(rollout.logprobs_T)


def differences_of(rollout: Rollout, source: str, name: str) -> np.ndarray | None:
    """What each token changed of a martingale, of a saved one what each step did.

    The last step's is not saved with the values before it, and left to the residual.
    """
    if f"differences/{NAME}" in rollout.tokens_T:
        return np.array(rollout.tokens_T[f"differences/{NAME}"])
    return np.append(np.diff(rollout.values_S(name)), 0.0) if source == SAVED else None


def root_of(rollout: Rollout, name: str) -> float:
    """The martingale's value of the query; 0 where there is none."""
    for own in (NAME, name):
        if f"values/{own}" in rollout.steps_S or f"values/{own}" in rollout.tokens_T:
            return rollout.values_S(own)[0]
    return 0.0


def differences_of_steps(rollout: Rollout, differences: np.ndarray, source: str) -> np.ndarray:
    return differences if source == SAVED else by_step(differences, rollout)


def by_step(numbers_T: np.ndarray, rollout: Rollout) -> np.ndarray:
    return np.array(step_sums(numbers_T.tolist(), rollout.spans_S), float)


def path_of(
    rollout: Rollout,
    masses_S: np.ndarray,
    source: str,
    name: str,
    differences_G: Sequence[np.ndarray | None],
    residuals_G: Sequence[float],
    index: int,
) -> credit_noise.Path:
    starts_S = np.array([span.start for span in rollout.spans_S])
    about = masses_S, starts_S, len(rollout.response_ids)
    if source == SAMPLED:
        returns = [value.returns_K for value in rollout.returns_S[name]]
        return credit_noise.sampled_path(*about, len(residuals_G), returns, rollout.reward)
    if source == EXACT:
        values_S = rollout.values_S(name)
        return credit_noise.exact_path(*about, len(residuals_G), values_S, rollout.reward)
    differences = differences_G[index]
    assert differences is not None, "fitted or saved"
    differences_S = differences_of_steps(rollout, differences, source)
    return credit_noise.martingale_path(*about, differences_S, residuals_G, index)
