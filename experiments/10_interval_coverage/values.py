"""How often 95 % intervals over problems hold the scores of values: writes values.csv here.

    python experiments/10_interval_coverage/values.py

A state's value is its problem's level and a change of its own, in logits; its truth the mean of 256
returns. What an interval has to hold is the score of 20,000 problems.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from analysis.stats import correlation, errors, ranking
from analysis.stats.bootstrap import Estimate, bootstrap_sums
from analysis.stats.value_scores import Cell, pooled_terms, within_terms

NUM_TABLES, NUM_RETURNS, MANY = 500, 256, 20_000
# Problems, and states of each: about those of 11, of one seed of 03 and of three.
SIZES = ((60, 2), (32, 5), (96, 5))
NUM_RANKED = (20, 50)  # states of 04, each of a problem of its own, with five next steps
Tables = Callable[[tuple[int, int], np.random.Generator], dict[str, Estimate]]


def estimates(terms: dict, problem_N: np.ndarray, statistics: dict) -> dict[str, Estimate]:
    num_resamples = 1 if problem_N[-1] == MANY - 1 else 2000
    return bootstrap_sums(
        terms,
        problem_N,
        statistics,
        np.random.default_rng(0),
        num_resamples=num_resamples,
        level=0.95,
    )


def values_of(predictor: str) -> Tables:
    def table(sizes: tuple[int, int], generator: np.random.Generator) -> dict[str, Estimate]:
        level_P = generator.normal(-0.5, 1, sizes[0])[:, None]
        logit_PS = level_P + generator.normal(0, 1.5, sizes)
        value_PS = expit(logit_PS)
        predicted_PS = {
            "a critic that knows problems": expit(level_P + generator.normal(0, 0.5, sizes)),
            "a critic that knows states": expit(logit_PS + generator.normal(0, 0.7, sizes)),
            "K = 3": generator.binomial(3, value_PS) / 3,
        }[predictor]
        problem_N = np.repeat(np.arange(sizes[0]), sizes[1])
        columns = {
            "prediction": predicted_PS.ravel(),
            "num_correct": generator.binomial(NUM_RETURNS, value_PS).ravel(),
            "num_samples": NUM_RETURNS,
            "unit": problem_N,
        }
        cell = Cell({}, True, None, pd.DataFrame(columns))
        pooled = {
            "mean absolute error": errors.mae,
            "explained variance": errors.corrected_explained_variance,
            "correlation": correlation.pearson,
        }
        return estimates(pooled_terms(cell), problem_N, pooled) | estimates(
            within_terms(cell), problem_N, {"correlation within": correlation.within}
        )

    return table


def next_steps(sizes: tuple[int, int], generator: np.random.Generator) -> dict[str, Estimate]:
    """Ranked by nine continuations of each."""
    value_NA = expit(generator.normal(-0.5, 1, (sizes[0], 1)) + generator.normal(0, 1, sizes))
    predicted_NA = generator.binomial(9, value_NA) / 9
    counts_NA = generator.binomial(NUM_RETURNS, value_NA)
    terms = ranking.ranking_terms(list(predicted_NA), list(counts_NA), NUM_RETURNS, 0.95)
    statistics = {"top-1": ranking.top1, "pairwise": ranking.pairwise}
    return estimates(terms, np.arange(sizes[0]), statistics)


def coverages(about: str, table: Tables, sizes: tuple[int, int]) -> list[dict]:
    truth = table((MANY, sizes[1]), np.random.default_rng(0))
    found = [table(sizes, np.random.default_rng((1, number))) for number in range(NUM_TABLES)]
    return [
        {
            "predictor": about,
            "num_problems": sizes[0],
            "states_each": sizes[1],
            "score": name,
            "truth": exact.value,
            "coverage": np.mean([one[name].low <= exact.value <= one[name].high for one in found]),
        }
        for name, exact in truth.items()
    ]


if __name__ == "__main__":
    predictors = ("a critic that knows problems", "a critic that knows states", "K = 3")
    rows = [
        row
        for predictor in predictors
        for sizes in SIZES
        for row in coverages(predictor, values_of(predictor), sizes)
    ]
    for number in NUM_RANKED:
        rows += coverages("K = 9", next_steps, (number, 5))
    out = Path(__file__).parent / "values.csv"
    pd.DataFrame(rows).to_csv(out, index=False, float_format="%.4f")
    print(pd.DataFrame(rows).to_string(index=False))
