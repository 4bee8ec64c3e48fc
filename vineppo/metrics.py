"""The numbers of an iteration by slash-separated names, and the rows of its tables. Pure."""

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import correlation, fmean
from typing import TYPE_CHECKING, Any

import torch

from vineppo.config.schema import ImportanceLevel, TrainConfig
from vineppo.run_dir import TURN_COLUMNS
from vineppo.types import CRITIC, MONTE_CARLO, Rollout, StateValue, by_problem

if TYPE_CHECKING:
    from vineppo.experience import Experience
    from vineppo.values import ValuePredictor

NEAR_ZERO = 1e-6
NUM_CALIBRATION_BINS = 10


def iteration_metrics(
    experience: "Experience",
    predictors: Sequence["ValuePredictor"],
    config: TrainConfig,
    kl_coef: float,
) -> dict[str, float]:
    """The metrics of an iteration's rollouts, values and advantages."""
    rollouts, drawn = experience.rollouts, experience.drawn
    num_sampled = sum(sum(config.credit.sampled_tokens(rollout)) for rollout in drawn)
    metrics = {
        **reward_metrics(drawn),
        **rollout_metrics(rollouts),
        **advantage_metrics([rollout.steps_S["advantages"] for rollout in rollouts]),
        **logprob_gap_metrics(rollouts),
        **value_quality(rollouts, predictors, config),
        "tokens/rollout": num_sampled + experience.greedy_tokens,
        "tokens/values": experience.value_tokens,
    }
    if config.reference.kl_estimator is not None:
        metrics |= kl_metrics([r.of_actions(r.tokens_T["kl"]) for r in rollouts], kl_coef)
    if config.optimization.max_redraws:
        metrics["rollout/drawn_problems"] = len(drawn) // config.rollouts.num_samples
    importance = config.optimization.importance_correction
    if importance is not None:
        metrics |= importance_metrics(rollouts, importance.level)
    values = [v for r in rollouts for v in r.returns_S.get(MONTE_CARLO, ()) if v.returns_K]
    if values:
        metrics |= value_metrics(values, experience.continuations[MONTE_CARLO])
    return metrics


def reward_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """`reward/*`: over rollouts, and the share of problems with one reward for all rollouts."""
    groups = [{rollout.reward for rollout in group} for group in by_problem(rollouts)]
    mean, std = mean_std([rollout.reward for rollout in rollouts])
    return {
        "reward/mean": mean,
        "reward/std": std,
        "reward/group_all_equal_frac": fmean(len(group) == 1 for group in groups),
    }


def rollout_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """`rollout/*` except the log-probability gap; lengths in tokens, with the end token."""
    lengths = [len(rollout.response_ids) for rollout in rollouts]
    metrics = {
        "rollout/response_length_mean": fmean(lengths),
        "rollout/response_length_max": max(lengths),
        "rollout/truncated_frac": fmean(r.finish_reason == "length" for r in rollouts),
        "rollout/steps_mean": fmean(len(rollout.spans_S) for rollout in rollouts),
    }
    if any(rollout.turns for rollout in rollouts):
        metrics["rollout/turns_mean"] = fmean(len(rollout.turns) for rollout in rollouts)
        num_written = sum(sum(rollout.is_action_T) for rollout in rollouts)
        metrics["rollout/observed_frac"] = 1 - num_written / sum(lengths)
    return metrics


def logprob_gap_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """|log π_engine − log π_trainer| over all sampled tokens: a stale weight shows here.

    With `sampling.top_p` < 1 up to −log top_p of a token's gap is no error.
    """
    engine_N = _flat([r.of_actions(r.logprobs_T) for r in rollouts])
    trainer_N = _flat([r.of_actions(r.tokens_T["trainer_logprobs"]) for r in rollouts])
    gap_N = (engine_N - trainer_N).abs()
    return {
        "rollout/engine_logprob_gap_mean": gap_N.mean().item(),
        "rollout/engine_logprob_gap_max": gap_N.max().item(),
    }


def importance_metrics(rollouts: Sequence[Rollout], level: ImportanceLevel) -> dict[str, float]:
    """`rollout/importance_*`: mean and effective share of the weights for what the engine samples.

    ess_frac = (Σ w)² / (n Σ w²) (Kong 1992) over n trained tokens, or sequences. [1, 1, 2]: 16/18.
    """
    weights: list[float] = []
    for rollout in rollouts:
        columns = rollout.tokens_T["importance"], rollout.tokens_T["is_trained"]
        trained = [weight for weight, is_trained in zip(*columns, strict=True) if is_trained]
        weights += trained[:1] if level == "sequence" else trained
    total, squares = math.fsum(weights), math.fsum(weight**2 for weight in weights)
    return {
        "rollout/importance_mean": total / max(len(weights), 1),
        "rollout/importance_ess_frac": total**2 / (len(weights) * squares) if squares else 0.0,
    }


def value_metrics(values: Sequence[StateValue], num_continuations: int) -> dict[str, float]:
    """`values/*` over the estimated states, which took `num_continuations` continuations."""
    mean, std = mean_std([value.mean for value in values])
    return {
        "values/mean": mean,
        "values/std": std,
        "values/num_states": len(values),
        "values/num_continuations": num_continuations,
        "values/all_equal_frac": fmean(len(set(v.returns_K)) == 1 for v in values),
    }


def advantage_metrics(advantages: Sequence[Sequence[float]]) -> dict[str, float]:
    """`advantages/*` over steps, before whitening."""
    flat = list(chain.from_iterable(advantages))
    mean, std = mean_std(flat)
    return {
        "advantages/mean": mean,
        "advantages/std": std,
        "advantages/near_zero_frac": fmean(abs(advantage) < NEAR_ZERO for advantage in flat),
    }


def kl_metrics(kl_T_by_rollout: Sequence[Sequence[float]], kl_coef: float) -> dict[str, float]:
    """`kl/*`: the raw estimate, per token and summed over a sequence (nats)."""
    kl_N = _flat(kl_T_by_rollout)
    return {
        "kl/ref": kl_N.mean().item(),
        "kl/ref_per_sequence": kl_N.sum().item() / len(kl_T_by_rollout),
        "kl/coef": kl_coef,
    }


def merged_grading(by_rank: Sequence[dict[str, float]]) -> dict[str, float]:
    """`grading/*` of all ranks: counts are summed, fractions weighted by what each rank graded."""
    num_graded = sum(metrics["grading/num_graded"] for metrics in by_rank)

    def merged(name: str) -> float:
        if not name.endswith("_frac"):
            return sum(metrics[name] for metrics in by_rank)
        weighted = sum(metrics["grading/num_graded"] * metrics[name] for metrics in by_rank)
        return weighted / max(num_graded, 1.0)

    return {name: merged(name) for name in by_rank[0]}


def value_quality(
    rollouts: Sequence[Rollout], predictors: Sequence["ValuePredictor"], config: TrainConfig
) -> dict[str, float]:
    """`NAME/…` of `predictor_metrics`, for the predictors that do not sample returns."""
    metrics = {}
    for predictor in predictors:
        if predictor.name in rollouts[0].returns_S:
            continue
        values_PN, returns_PN = [], []
        for group in by_problem(rollouts):
            pairs = [pair for rollout in group for pair in _valued(predictor, config, rollout)]
            values_PN.append([value for value, _ in pairs])
            returns_PN.append([total for _, total in pairs])
        for name, number in predictor_metrics(values_PN, returns_PN).items():
            metrics[f"{predictor.metrics_group}/{name}"] = number
    return metrics


def _valued(
    predictor: "ValuePredictor", config: TrainConfig, rollout: Rollout
) -> Iterable[tuple[float, float]]:
    """The value and the reward to go of every state that the predictor values."""
    returns_T = config.credit.returns(rollout)
    if predictor.gives == "tokens":
        values_T = rollout.values_T(predictor.name)
        return zip(rollout.of_actions(values_T), rollout.of_actions(returns_T), strict=True)
    starts_S = [span.start for span in rollout.spans_S]
    return zip(rollout.values_S(predictor.name), [returns_T[t] for t in starts_S], strict=True)


def predictor_metrics(
    values_PN: Sequence[Sequence[float]], returns_PN: Sequence[Sequence[float]]
) -> dict[str, float]:
    """How good a predictor's values are, against the returns from each problem's states."""
    values_N, returns_N = [*chain(*values_PN)], [*chain(*returns_PN)]
    return {
        "explained_variance": explained_variance(values_N, returns_N),
        "within_problem_correlation": within_problem_correlation(values_PN, returns_PN),
        "calibration_error": calibration_error(values_N, returns_N),
        "value_std": mean_std(values_N)[1],
        "return_std": mean_std(returns_N)[1],
    }


def explained_variance(values: Sequence[float], returns: Sequence[float]) -> float:
    """1 − Var(return − value)/Var(return); NaN where the returns do not vary.

    Values [0.5, 0.5] of returns [0, 1] give 0, values [0.25, 0.75] give 0.75.
    """
    errors = [target - value for value, target in zip(values, returns, strict=True)]
    errors_std, returns_std = mean_std(errors)[1], mean_std(returns)[1]
    return 1.0 - (errors_std / returns_std) ** 2 if returns_std > 0 else math.nan


def within_problem_correlation(
    values_PN: Sequence[Sequence[float]], returns_PN: Sequence[Sequence[float]]
) -> float:
    """Σ dV·dR / √(Σ dV² · Σ dR²), where d is the deviation from the problem's mean; else NaN.

    Values [0, 1], [5, 7] of returns [0, 1], [1, 0]: (½ − 1)/√(2.5 · 1) = −0.316.
    """

    def deviations(rows: Sequence[Sequence[float]]) -> list[float]:
        return [number - mean for row in rows for mean in [fmean(row)] for number in row]

    if not all(map(math.isfinite, chain(*values_PN, *returns_PN))):
        return math.nan
    # Numbers that are equal on one rank may differ by rounding on two: no deviation.
    both = deviations(values_PN), deviations(returns_PN)
    if any(max(map(abs, some), default=0.0) < NEAR_ZERO for some in both):
        return math.nan
    return correlation(*both)


def calibration_error(values: Sequence[float], returns: Sequence[float]) -> float:
    """Σ_b n_b/n · |mean value − mean return| over tenths of [0, 1] (arXiv:1706.04599, eq. 3).

    Values [0.25, 0.28, 0.8] of returns [0, 1, 1]: |0.53 − 1|/3 + |0.8 − 1|/3 = 0.223.
    """
    edges = [part / NUM_CALIBRATION_BINS for part in range(1, NUM_CALIBRATION_BINS)]
    sums = [0.0] * NUM_CALIBRATION_BINS
    for value, target in zip(values, returns, strict=True):
        sums[bisect(edges, value)] += value - target
    return sum(map(abs, sums)) / len(values)


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased pass@k of one problem, 1 − C(n−c, k)/C(n, k) (Chen et al. 2021, eq. 1).

    n = 4 samples with c = 1 correct: pass@1 = 1/4, pass@2 = 1 − C(3,2)/C(4,2) = 1/2.
    """
    return 1.0 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def evaluation_summary(num_correct_P: Sequence[int], num_samples: int) -> dict[str, float]:
    """pass@k for k = 1, 2, 4, … and n, and the standard error of pass@1 over problems."""
    summary: dict[str, float] = {}
    for k in sorted({2**i for i in range(num_samples.bit_length())} | {num_samples}):
        pass_at_k_P = [pass_at_k(num_samples, c, k) for c in num_correct_P]
        summary[f"pass@{k}"], std = mean_std(pass_at_k_P)
        if k == 1:
            summary["pass@1_stderr"] = std / math.sqrt(max(len(num_correct_P) - 1, 1))
    return summary


def mean_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and population standard deviation; NaN and NaN where a value is not finite."""
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan
    mean = fmean(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def _flat(rows: Sequence[Sequence[float]]) -> torch.Tensor:
    return torch.tensor(list(chain.from_iterable(rows)), dtype=torch.float64)


def rollout_rows(rollouts: Sequence[Rollout]) -> list[dict[str, Any]]:
    """One row per rollout; `step_starts` count in the response, `advantages_S` are raw."""
    rows = []
    for rollout in rollouts:
        assert len(rollout.steps_S["advantages"]) == len(rollout.spans_S), "one advantage a step"
        row = {
            "problem_id": rollout.problem.id,
            "rollout_index": rollout.rollout_index,
            "prompt_ids": rollout.prompt_ids,
            "response_ids": rollout.response_ids,
            "logprobs": rollout.logprobs_T,
            "text": rollout.text,
            "reward": rollout.reward,
            "finish_reason": rollout.finish_reason,
            "step_starts": [span.start for span in rollout.spans_S],
            "advantages_S": rollout.steps_S["advantages"],
        }
        if rollout.turns:
            turns = ((turn.end, turn.state, turn.reward) for turn in rollout.turns)
            row |= dict(zip(TURN_COLUMNS.names, zip(*turns, strict=True), strict=True))
        rows.append(row)
    return rows


def value_rows(rollouts: Sequence[Rollout], predictors: Sequence[str]) -> list[dict[str, Any]]:
    """One row per estimated state, and a further one for every predictor besides MC and critic.

    `returns_K` is empty where Monte-Carlo values left the state out, `critic_value` null without a
    critic, and the other predictors' `value` null for a state left out.
    """
    further = [name for name in predictors if name not in (MONTE_CARLO, CRITIC)]
    no_prediction = {"predictor": None, "value": None} if further else {}
    rows = []
    for rollout in rollouts:
        values = {name: rollout.values_S(name) for name in predictors if name != MONTE_CARLO}
        for step, span in enumerate(rollout.spans_S):
            state = {
                "problem_id": rollout.problem.id,
                "rollout_index": rollout.rollout_index,
                "step_index": step,
                "prefix_length": span.start,
                "critic_value": None,
            }
            critic = {"critic_value": values[CRITIC][step]} if CRITIC in values else {}
            rows.append(state | _returns(rollout, MONTE_CARLO, step) | critic | no_prediction)
            for name in further:
                value = values[name][step]
                prediction = {"predictor": name, "value": None if math.isnan(value) else value}
                rows.append(state | _returns(rollout, name, step) | prediction)
    return rows


def _returns(rollout: Rollout, predictor: str, step: int) -> dict[str, Any]:
    """The continuations of a state, or what the engine wrote for it besides."""
    if not rollout.returns_S.get(predictor):
        tokens_S = rollout.steps_S.get(f"tokens/{predictor}")
        return {"returns_K": (), "num_tokens": tokens_S[step] if tokens_S else 0}
    state = rollout.returns_S[predictor][step]
    return {"returns_K": state.returns_K, "num_tokens": state.num_tokens}
