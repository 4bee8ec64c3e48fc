"""What credit could be worth, without a network: `simulation.csv`.

    python experiments/16_by_the_clock/simulate.py

F facts, each with a logit of its own, right with probability σ(θ_f), at first ½. A problem asks N
of them and passes where M come out right. An iteration has 4 problems of 4 rollouts and one step of
Adam on the mean of A · ∇log π. Advantages A of a fact, the k-th of its rollout:

    rloo         R less the mean of the others' R
    exact        V_{k+1} − V_k, V the exact (Poisson-binomial) probability to pass
    k3           the same of means of three draws
    learned      Δ_k + the residual R − ΣΔ less the others', Δ_k = w_f (1[right] − π_f): w by
                 Bayesian linear regression of R − its mean on all earlier choices, one a fact
    privileged   the same with one weight for all facts: who sees the answer sees what is right

The rate of Adam is the best of `RATES` by the mean pass rate over the way. numpy alone.
"""

import csv
from pathlib import Path

import numpy as np

METHODS = ("rloo", "exact", "k3", "learned", "privileged")
RATES = (0.05, 0.1, 0.2, 0.4)
TASKS = ((2, 2), (7, 5))
NUM_FACTS, NUM_PROBLEMS, NUM_ROLLOUTS, NUM_ITERATIONS, NUM_SEEDS = 60, 4, 4, 60, 32
PRIOR_PRECISION = 10.0  # of a weight, in units of a choice's variance


def tail_values(right_PN: np.ndarray, num_needed: int) -> np.ndarray:
    """V[p, k, c]: the probability to pass after k facts of which c came out right."""
    num_problems, num_facts = right_PN.shape
    values = np.zeros((num_problems, num_facts + 1, num_facts + 2))
    values[:, num_facts] = np.arange(num_facts + 2) >= num_needed
    for k in reversed(range(num_facts)):
        p = right_PN[:, k, None]
        values[:, k, :-1] = p * values[:, k + 1, 1:] + (1 - p) * values[:, k + 1, :-1]
    return values


class Weights:
    """Bayesian linear regression of the reward on the choices' scores."""

    def __init__(self, size: int) -> None:
        self.precision, self.sum = PRIOR_PRECISION * np.eye(size), np.zeros(size)

    def mean(self) -> np.ndarray:
        return np.linalg.solve(self.precision, self.sum)

    def learn(self, features_NF: np.ndarray, targets_N: np.ndarray) -> None:
        self.precision = self.precision + features_NF.T @ features_NF
        self.sum = self.sum + features_NF.T @ targets_N


def less_the_others(numbers_PG: np.ndarray) -> np.ndarray:
    others_PG = numbers_PG.sum(1, keepdims=True) - numbers_PG
    return numbers_PG - others_PG / (numbers_PG.shape[1] - 1)


def run(method: str, num_asked: int, num_needed: int, rate: float, seed: int) -> list[float]:
    """The pass rate after every iteration, on 256 problems by exact values."""
    rng = np.random.default_rng(seed)
    logits_F, moment, square = (np.zeros(NUM_FACTS) for _ in range(3))
    weights = Weights(1 if method == "privileged" else NUM_FACTS)
    tests_PN = np.stack([rng.permutation(NUM_FACTS)[:num_asked] for _ in range(256)])
    rates = []
    for iteration in range(1, NUM_ITERATIONS + 1):
        asked_PN = np.stack([rng.permutation(NUM_FACTS)[:num_asked] for _ in range(NUM_PROBLEMS)])
        right_PN = 1 / (1 + np.exp(-logits_F[asked_PN]))
        is_right_PGN = rng.random((NUM_PROBLEMS, NUM_ROLLOUTS, num_asked)) < right_PN[:, None]
        rewards_PG = (is_right_PGN.sum(-1) >= num_needed).astype(float)
        score_PGN = is_right_PGN - right_PN[:, None]
        if method == "rloo":
            advantages_PGN = less_the_others(rewards_PG)[..., None]
        elif method in ("exact", "k3"):
            counts = np.cumsum(is_right_PGN, -1)
            counts = np.concatenate([np.zeros_like(counts[..., :1]), counts], -1)
            of_problem = np.arange(NUM_PROBLEMS)[:, None, None]
            values = tail_values(right_PN, num_needed)
            values = values[of_problem, np.arange(num_asked + 1), counts]
            if method == "k3":
                values[..., :-1] = rng.binomial(3, values[..., :-1].clip(0, 1)) / 3
            advantages_PGN = np.diff(values, axis=-1)
        else:
            mean = weights.mean()
            of_fact_PN = mean[asked_PN] if method == "learned" else np.full(asked_PN.shape, mean)
            differences_PGN = of_fact_PN[:, None] * score_PGN
            residuals_PG = rewards_PG - differences_PGN.sum(-1)
            advantages_PGN = differences_PGN + less_the_others(residuals_PG)[..., None]
            features = score_PGN.sum(-1).reshape(-1, 1)
            if method == "learned":
                features = np.zeros((NUM_PROBLEMS * NUM_ROLLOUTS, NUM_FACTS))
                places = np.repeat(asked_PN, NUM_ROLLOUTS, axis=0)
                np.put_along_axis(features, places, score_PGN.reshape(-1, num_asked), 1)
            weights.learn(features, rewards_PG.ravel() - rewards_PG.mean())
        gradient = np.zeros(NUM_FACTS)
        np.add.at(gradient, asked_PN, (advantages_PGN * score_PGN).sum(1) / rewards_PG.size)
        moment = 0.9 * moment + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        step = moment / (1 - 0.9**iteration)
        logits_F = logits_F + rate * step / (np.sqrt(square / (1 - 0.999**iteration)) + 1e-8)
        right = 1 / (1 + np.exp(-logits_F[tests_PN]))
        rates.append(float(tail_values(right, num_needed)[:, 0, 0].mean()))
    return rates


def main() -> None:
    rows = []
    for num_asked, num_needed in TASKS:
        for method in METHODS:
            curves = {
                rate: np.mean(
                    [run(method, num_asked, num_needed, rate, seed) for seed in range(NUM_SEEDS)],
                    axis=0,
                )
                for rate in RATES
            }
            best = max(curves, key=lambda rate: curves[rate].mean())
            for rate in (0.1, best):
                curve = curves[rate]
                marks = [f"{curve[i - 1]:.3f}" for i in (10, 20, 40, 60)]
                is_best = int(rate == best)
                rows.append(
                    (num_asked, num_needed, method, rate, is_best, f"{curve.mean():.3f}", *marks)
                )
    columns = (
        "asked",
        "needed",
        "method",
        "rate",
        "is_best",
        "over_the_way",
        *(f"after_{i}" for i in (10, 20, 40, 60)),
    )
    with (Path(__file__).parent / "simulation.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([columns, *rows])


if __name__ == "__main__":
    main()
