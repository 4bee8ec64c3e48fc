"""How good a critic's values are, by place in the response and by outcome. Pure."""

import math
from collections.abc import Sequence
from typing import Any

from vineppo.credit import Credit
from vineppo.metrics import explained_variance
from vineppo.types import Rollout

NUM_PERCENTILE_BINS = 20


def percentile_bin(position: int, length: int) -> int:
    """The one of 20 equal parts of a response of `length` tokens that holds token `position`.

    `percentile_bin(5, 10) = 10`: the sixth of ten tokens starts the second half.
    """
    return position * NUM_PERCENTILE_BINS // length


def diagnostic_rows(
    rollouts: Sequence[Rollout], predictor: str, credit: Credit
) -> list[dict[str, Any]]:
    """A predictor's values, rewards to go and raw advantages of all tokens, in bins.

    The columns are those of `tables.DIAGNOSTICS_SCHEMA`.

    Axis "position" has a bin for every token position from 0, "percentile" has 20 bins of equal
    shares of the response; each is split into correct (reward above 0.5) and incorrect rollouts.
    Explained variance is that of both outcomes' rows together (within one the returns hardly vary),
    null where the returns do not vary at all. Bins that nothing falls into are left out.
    """
    bins: dict[tuple[str, int], dict[bool, list[tuple[float, float, float]]]] = {}
    for rollout in rollouts:
        values_T, returns_T = rollout.values_T(predictor), credit.returns(rollout)
        is_correct, length = rollout.reward > 0.5, len(rollout.response_ids)
        tokens = zip(values_T, returns_T, rollout.tokens_T["advantages"], strict=True)
        for position, (token, is_action) in enumerate(
            zip(tokens, rollout.is_action_T, strict=True)
        ):
            if not is_action:
                continue
            part = percentile_bin(position, length)
            for place in (("position", position), ("percentile", part)):
                outcomes = bins.setdefault(place, {False: [], True: []})
                outcomes[is_correct].append(token)
    rows = []
    for (axis, number), outcomes in sorted(bins.items()):
        values_N, returns_N, _ = zip(*outcomes[False], *outcomes[True], strict=True)
        explained = explained_variance(values_N, returns_N)
        for is_correct, in_bin in outcomes.items():
            if not in_bin:
                continue
            values_N, returns_N, advantages_N = zip(*in_bin, strict=True)
            rows.append(
                {
                    "axis": axis,
                    "bin": number,
                    "is_correct": is_correct,
                    "count": len(in_bin),
                    "values": values_N,
                    "returns": returns_N,
                    "advantages": advantages_N,
                    "explained_variance": None if math.isnan(explained) else explained,
                }
            )
    return rows
