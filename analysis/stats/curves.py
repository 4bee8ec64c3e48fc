"""Areas under learning curves."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np


def area_under_curve(iterations: Sequence[float], scores: Sequence[float]) -> float:
    """Mean of pass@1 over the iterations, evaluations joined by straight lines.

    Σ (i_(k+1) − i_k) · (y_k + y_(k+1))/2, divided by the iterations from first to last. So
    `area_under_curve([0, 2, 6], [0.0, 0.5, 1.0])` is (2 · 0.25 + 4 · 0.75) / 6 = 0.583; the score
    itself where there is one evaluation. Any other cost may stand for the iterations.
    """
    if len(iterations) == 1:
        return scores[0]
    points = zip(iterations, scores, strict=True)
    area = sum((i2 - i1) * (y1 + y2) / 2 for (i1, y1), (i2, y2) in pairwise(points))
    return area / (iterations[-1] - iterations[0])


def common_support(costs: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The costs that every curve covers: from the latest first to the earliest last.

    (0, 10, 20) and (5, 30): (5, 20). Raises `ValueError` where no stretch is common.
    """
    low, high = max(of[0] for of in costs), min(of[-1] for of in costs)
    if low >= high:
        raise ValueError(f"curves must have a stretch in common, got {low} to {high}")
    return low, high


def area_between(costs: Sequence[float], scores: Sequence[float], low: float, high: float) -> float:
    """`area_under_curve` over the costs from `low` to `high` alone, its ends on the lines.

    Costs ascend. Of (0, 10, 20) with (0, 1, 1) from 5 to 15: (0.5 … 1 … 1) over 10: 0.875. Raises
    `ValueError` where the curve does not cover them.
    """
    if not costs[0] <= low < high <= costs[-1]:
        raise ValueError(f"low and high must be in {costs[0]}..{costs[-1]}, got {low} and {high}")
    inner = [cost for cost in costs if low < cost < high]
    places = [low, *inner, high]
    return area_under_curve(places, [float(y) for y in np.interp(places, costs, scores)])
