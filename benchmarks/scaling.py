"""Seconds and tokens of rollouts and values against K, prompts and steps, with fitted slopes.

Each of the three grows alone, the others staying as the workload has them; all points of all three
are measured in turns. A slope belongs to the least-squares line of log seconds over log size. 1 is
linear; below 1, a larger job fills the engine better, or a constant part counts. The rollouts are
such a part against K and steps, so there are two fits. One takes the whole, rollouts and values in
one stream, as training runs it. The other takes the values phase alone, on finished rollouts. The
steps are cut at a fixed number of tokens, and their size is the mean number a response got. Later
states have shorter continuations, and equal ones are shared: linear in steps is not given. Peak
memory is for everything in a fresh process for every K; the ratio divides the largest K's by the
smallest's. A slope says something of cost only where the smallest size fills the engine (`--set
engine.max_num_seqs=…`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from statistics import mean, median

from benchmarks.harness import Options, alternate, parse_options, ratio, report, run_main, spread
from benchmarks.peak_memory import peak_mib
from benchmarks.workload import Workload, describe_workload, open_workload
from vineppo.segment import TokensSegmenter
from vineppo.types import Rollout

NAME = "scaling"


@dataclass(frozen=True)
class Grid:
    """The sizes of each kind; the base holds while another kind grows."""

    base_continuations: int
    base_prompts: int
    continuations: tuple[int, ...]
    prompts: tuple[int, ...]
    tokens_per_step: tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """One size of one kind ("K=9"), and the finished rollouts of its prompts."""

    kind: str
    size: float
    workload: Workload
    rollouts: list[Rollout]

    @property
    def name(self) -> str:
        return f"{self.kind}={self.size:.4g}"


def main() -> None:
    options = parse_options(NAME, "seconds against K, prompts and steps; peak memory against K")
    # Before the engine starts here, so that a GPU has room for the other processes'.
    peaks = {K: peak_mib(K, options) for K in continuations(options)}
    with open_workload(options) as workload:
        points = make_points(workload, choose_grid(options, workload))
        points[0].workload.experience()  # warms the machine up
        tokens: dict[str, int] = {}
        alternatives: dict[str, Callable[[], float]] = {}
        for point in points:
            alternatives[point.name] = partial(whole, point, tokens)
            alternatives[f"{point.name} values"] = partial(values, point)
        measured = alternate(options.num_runs, alternatives)
    slopes = {}
    for kind in dict.fromkeys(point.kind for point in points):
        group = [point for point in points if point.kind == kind]
        sizes = [point.size for point in group]
        for suffix in ("", " values"):
            runs = zip(*(measured[point.name + suffix] for point in group), strict=True)
            slopes_of_runs = [slope(sizes, seconds) for seconds in runs]
            slopes[f"slope over {kind}, {suffix.strip() or 'whole'}"] = spread(slopes_of_runs)
    largest, smallest = max(peaks), min(peaks)
    slopes[f"peak memory K={largest} / K={smallest}"] = ratio([peaks[largest]], [peaks[smallest]])
    report(
        NAME,
        options,
        options.num_runs,
        slopes,
        {
            **{f"{name}_s": median(seconds) for name, seconds in measured.items()},
            **{f"{name}_tokens": count for name, count in tokens.items()},
            **{f"peak_mib_K={K}": peak for K, peak in peaks.items()},
            "workload": describe_workload(points[0].workload.config),
            "measured_s": measured,
        },
    )


def continuations(options: Options) -> tuple[int, ...]:
    return (1, 3) if options.is_quick else (1, 3, 9, 27)


def choose_grid(options: Options, workload: Workload) -> Grid:
    """The demo grows around its own size; a real model, which is slower, around a smaller one."""
    num_prompts, Ks = workload.config.rollouts.num_prompts, continuations(options)
    if options.is_quick:
        return Grid(1, num_prompts, Ks, (num_prompts // 2, num_prompts), (12, 6))
    prompts = (num_prompts // 4, num_prompts // 2, num_prompts)
    if options.model is None:
        return Grid(9, num_prompts, Ks, (*prompts, 2 * num_prompts), (24, 12, 6, 3))
    return Grid(3, num_prompts // 4, Ks, prompts, (64, 32, 16, 8))


def make_points(workload: Workload, grid: Grid) -> list[Point]:
    """All sizes of all kinds. Steps are counted on the rollouts."""
    base = workload.varied(grid.base_continuations, grid.base_prompts)
    rollouts = base.rollouts()
    points = [Point("K", K, base.varied(num_continuations=K), rollouts) for K in grid.continuations]
    for num_prompts in grid.prompts:
        grown = base.varied(num_prompts=num_prompts)
        points.append(Point("prompts", num_prompts, grown, grown.rollouts()))
    for num_tokens in grid.tokens_per_step:
        cut = base.varied(segmenter=TokensSegmenter("tokens", num_tokens))
        cut.split(rollouts)
        num_steps = mean(len(rollout.spans_S) for rollout in rollouts)
        points.append(Point("steps", num_steps, cut, rollouts))
    return points


def whole(point: Point, tokens: dict[str, int]) -> float:
    """Seconds of rollouts and values in one stream; keeps what was sampled."""
    engine = point.workload.sampler.engine
    before = engine.counts.sampled_tokens
    seconds, _ = point.workload.timed(point.workload.experience)
    tokens[point.name] = engine.counts.sampled_tokens - before
    return seconds


def values(point: Point) -> float:
    """Seconds of the values phase alone."""
    return point.workload.timed(lambda: point.workload.values(point.rollouts))[0]


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Least squares on logarithms: Σ (x − x̄)(y − ȳ) / Σ (x − x̄)².

    `slope([1, 2, 4], [3, 6, 12])` is 1.
    """
    x = [log(size) for size in sizes]
    y = [log(second) for second in seconds]
    covariance = sum((a - mean(x)) * (b - mean(y)) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean(x)) ** 2 for a in x)


if __name__ == "__main__":
    run_main(main)
