"""What a run's saved rollouts say of the noise and the price of every estimator, by rollout."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from analysis.sampling.estimators import critic_share, learning_seconds, seconds_per_token
from analysis.sampling.held_out import NAME, SCORE_SQUARES, fit_martingale
from analysis.sampling.policies import policy_paths, train_config
from analysis.sampling.rollouts import groups_of, read_saved
from analysis.stats import credit_noise
from vineppo.config.schema import ShrunkMeanValues, TrainConfig
from vineppo.credit.groups import rloo_advantages
from vineppo.credit.martingale import shrunk_advantages
from vineppo.credit.vine import step_sums
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.types import CRITIC, Problem, Rollout
from vineppo.values.shrunk_mean import ShrunkMean

FITTED, SAMPLED, EXACT, SAVED = "fitted martingale", "continuations", "exact", "saved martingale"
SHRUNK, REPLAY = "rloo_shrunk", 10  # as configs/lib/recipes.libsonnet has it
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
    cost_ratio: float | None,
    fit_iterations: int,
    checkpoint: int | None = None,
) -> Evidence:
    """Of the last `num_iterations` that are saved, up to the checkpoint; a martingale is fitted to
    `fit_iterations` of them, or more. Raises `UserError` where they tell nothing."""
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
    groups = [group for rollouts in iterations for group in groups_of(rollouts)]
    rollouts = [*chain.from_iterable(groups)]
    check(run_path, groups)
    shrunk = ShrunkMean(SHRUNK, config, ShrunkMeanValues("shrunk_mean", REPLAY))
    for of_iteration in read:  # the first of them may be earlier
        shrunk.estimate(of_iteration)
        shrunk.update(of_iteration, 0)
    if is_fitted:
        fit_martingale(config, policies[last], read[-num_fitted:], num_iterations)
    source, name = value_source(run_path, config, rollouts, is_fitted)
    rows = [
        row for group in groups for row in group_terms(group, source, name, continuations, cuts)
    ]
    terms = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    learning = cost_ratio
    if learning is None:
        metrics = run.read_metrics()
        tokens = terms["length"].mean() * config.rollouts.num_samples
        learning = learning_seconds(metrics, config) / (seconds_per_token(metrics) * tokens)
        if not math.isfinite(learning):
            raise UserError(
                f"{run_path} logged no times to price estimators by, or those of several value "
                "models together; give --cost-ratio"
            )
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
        "has_exact_scores": int(is_fitted), "cost_ratio": without,
    }  # fmt: skip
    return Evidence(about, [rollout.problem.id for rollout in rollouts], terms, ratios)


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
        if own.is_exact:
            return EXACT, name
    if is_fitted:
        return FITTED, NAME
    for name, own in known.items():
        if own.is_martingale:
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
) -> list[dict[str, float]]:
    """`Evidence.terms` of a problem's rollouts."""
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
        rows.append(row)
    return rows


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
