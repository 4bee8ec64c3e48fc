"""What the methods of a comparison come to: where each starts, ends and fares between."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.intervals import (
    Estimate,
    iqm_difference,
    iqm_over_seeds,
    probability_of_improvement,
)
from analysis.methods import CurveRow, Method, method_curve
from analysis.reading import CurvePoint
from analysis.stats.curves import area_under_curve
from analysis.summary_file import estimate_columns


@dataclass(frozen=True)
class Summary:
    """A method in numbers.

    `start`, `end` and `area` are interquartile means of pass@1 over seeds at the first and the last
    iteration and over all of them; `difference` and `improvement` compare the end with that of the
    first method and are None for it. The costs are means over seeds at `last_iteration`.
    """

    method: str
    seeds: list[int]
    last_iteration: int
    start: Estimate
    end: Estimate
    area: Estimate
    elapsed_s: float | None
    tokens_sampled: float | None
    difference: Estimate | None
    improvement: Estimate | None

    @property
    def interval_over(self) -> str:
        """What the intervals of start and end resample: seeds, or problems of one seed."""
        return "seeds" if len(self.seeds) > 1 else "problems"


def summarize(methods: Sequence[Method]) -> list[Summary]:
    """One summary a method, in their order."""
    baseline_M = _end_scores(methods[0])
    summaries = []
    for index, method in enumerate(methods):
        curve = method_curve(method)
        scores_N = _end_scores(method)
        summaries.append(
            Summary(
                method=method.name,
                seeds=list(method.rows_by_seed),
                last_iteration=curve[-1].iteration,
                start=_estimate(curve[0]),
                end=_estimate(curve[-1]),
                area=iqm_over_seeds(
                    [_area(rows, method.iterations) for rows in method.rows_by_seed.values()]
                ),
                elapsed_s=curve[-1].elapsed_s,
                tokens_sampled=curve[-1].tokens_sampled,
                difference=iqm_difference(scores_N, baseline_M) if index else None,
                improvement=probability_of_improvement(scores_N, baseline_M) if index else None,
            )
        )
    return summaries


def summary_rows(summaries: Sequence[Summary]) -> list[dict[str, Any]]:
    """Rows of `summary.csv`: an estimate is three columns, itself and the ends of its interval."""
    return [
        {
            "method": one.method,
            "seeds": " ".join(map(str, one.seeds)),
            "interval_over": one.interval_over,
            "last_iteration": one.last_iteration,
            **estimate_columns("start_pass_at_1", one.start),
            **estimate_columns("end_pass_at_1", one.end),
            **estimate_columns("area", one.area),
            "elapsed_s": one.elapsed_s,
            "tokens_sampled": one.tokens_sampled,
            **estimate_columns("difference", one.difference),
            **estimate_columns("improvement", one.improvement),
        }
        for one in summaries
    ]


def _end_scores(method: Method) -> list[float]:
    return [row.pass_at_1 for row in method.at(method.iterations[-1])]


def _area(rows: Sequence[CurveRow], iterations: Sequence[int]) -> float:
    return area_under_curve(
        iterations, [row.pass_at_1 for row in rows if row.iteration in iterations]
    )


def _estimate(point: CurvePoint) -> Estimate:
    return Estimate(point.pass_at_1, point.low, point.high)
