"""Methods as curves of pass@1 over KL, and what they come to at one KL that all of them reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from analysis.kl_efficiency.table import KlRow
from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import common_support, iqm, iqm_difference
from vineppo.errors import UserError

KLS = ("kl_per_token", "kl_per_sequence")


@dataclass(frozen=True)
class KlMethod:
    """The checkpoints of a method's runs by seed, which ascend, each at the common iterations."""

    name: str
    rows_by_seed: dict[int, list[KlRow]]

    @property
    def iterations(self) -> list[int]:
        return [row.iteration for row in next(iter(self.rows_by_seed.values()))]


@dataclass(frozen=True)
class KlPoint:
    """A method at an iteration: interquartile means over its seeds."""

    iteration: int
    kl_per_token: Estimate
    kl_per_sequence: Estimate
    pass_at_1: Estimate


@dataclass(frozen=True)
class Efficiency:
    """A method by one of the two KL, as interquartile means over seeds.

    `matched` is pass@1 where the curves first reach the KL `level`, `difference` that minus the
    first method's. `gain_per_nat` is the gain in pass@1 from the first common iteration to the last
    per nat between them, `gain_difference` that minus the first method's. None where the data give
    none: of one checkpoint, or of a KL that did not grow.
    """

    level: float | None
    matched: Estimate | None
    difference: Estimate | None
    gain_per_nat: Estimate | None
    gain_difference: Estimate | None


def group(rows: Sequence[KlRow]) -> list[KlMethod]:
    """Rows by method and seed, at the iterations that all seeds of a method have.

    Raises `UserError` for two rows of a seed at an iteration, and where seeds share no iteration.
    """
    found: dict[str, dict[int, dict[int, KlRow]]] = {}
    for row in rows:
        by_iteration = found.setdefault(row.method, {}).setdefault(row.seed, {})
        other = by_iteration.setdefault(row.iteration, row)
        if other is not row:
            raise UserError(
                f"{other.run_dir} and {row.run_dir} are both seed {row.seed} of {row.method}"
            )
    methods = []
    for name, by_seed in found.items():
        common = sorted(set.intersection(*(set(of) for of in by_seed.values())))
        if not common:
            raise UserError(f"{name}: its seeds have no checkpoint of a common iteration")
        seeds = {seed: [of[i] for i in common] for seed, of in sorted(by_seed.items())}
        methods.append(KlMethod(name, seeds))
    return methods


def curve(method: KlMethod) -> list[KlPoint]:
    """Of a method with one seed it is that run, its intervals over problems."""
    points = []
    for place, iteration in enumerate(method.iterations):
        rows = [rows[place] for rows in method.rows_by_seed.values()]
        cells = {
            name: (
                rows[0].estimate(name)
                if len(rows) == 1
                else iqm([getattr(row, name) for row in rows])
            )
            for name in (*KLS, "pass_at_1")
        }
        points.append(KlPoint(iteration, **cells))
    return points


def efficiencies(methods: Sequence[KlMethod], kl: str) -> list[Efficiency]:
    """One a method, in their order, by the KL `kl` of `KLS`."""
    level = matched_level(methods, kl)
    matched = [
        None
        if level is None
        else [crossing(*_curve(rows, kl), level) for rows in method.rows_by_seed.values()]
        for method in methods
    ]
    gains = [_gains(method, kl) for method in methods]
    return [
        Efficiency(
            level=level,
            matched=_iqm(matched[i]),
            difference=_difference(matched[i], matched[0]) if i else None,
            gain_per_nat=_iqm(gains[i]),
            gain_difference=_difference(gains[i], gains[0]) if i else None,
        )
        for i in range(len(methods))
    ]


def matched_level(methods: Sequence[KlMethod], kl: str) -> float | None:
    """The greatest KL that every seed of every method reaches; None where they share no stretch.

    Curves from 0 to 0.5, 0.25 and 1 nats: 0.25.
    """
    reached = [
        (rows_kl[0], max(rows_kl))
        for method in methods
        for rows in method.rows_by_seed.values()
        for rows_kl, _ in [_curve(rows, kl)]
    ]
    support = common_support(reached)
    return None if support is None else support[1]


def crossing(kl: Sequence[float], scores: Sequence[float], level: float) -> float:
    """The score where a curve's KL first reaches `level`, on the straight line to it.

    Of (0, 1, 3) with (0.2, 0.6, 0.8) at 2: 0.7. The KL may fall again later. Raises `ValueError`
    where the curve does not cover the level.
    """
    if kl[0] == level:
        return scores[0]
    if kl[0] < level:
        for (low, start), (high, end) in pairwise(zip(kl, scores, strict=True)):
            if high >= level:
                return start + (end - start) * (level - low) / (high - low)
    raise ValueError(f"level must be in {kl[0]}..{max(kl)}, got {level}")


def _gains(method: KlMethod, kl: str) -> list[float] | None:
    """By seed; None where a seed's KL did not grow."""
    gains = []
    for rows in method.rows_by_seed.values():
        nats, scores = _curve(rows, kl)
        if not nats[-1] > nats[0]:
            return None
        gains.append((scores[-1] - scores[0]) / (nats[-1] - nats[0]))
    return gains


def _curve(rows: Sequence[KlRow], kl: str) -> tuple[list[float], list[float]]:
    return [getattr(row, kl) for row in rows], [row.pass_at_1 for row in rows]


def _iqm(scores_N: Sequence[float] | None) -> Estimate | None:
    return None if scores_N is None else iqm(scores_N)


def _difference(
    scores_N: Sequence[float] | None, baseline_M: Sequence[float] | None
) -> Estimate | None:
    if scores_N is None or baseline_M is None:
        return None
    return iqm_difference(scores_N, baseline_M)
