"""The figure of `kl-efficiency`: pass@1 against KL, by token and by response."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from analysis import figures
from analysis.kl_efficiency.curves import KLS, KlMethod, KlPoint, curve, matched_level
from analysis.stats.bootstrap import Estimate

LABELS = {
    "kl_per_token": "KL to the start (nats per token)",
    "kl_per_sequence": "KL to the start (nats per response)",
}
CAPTION = "cross: 95 % bootstrap over seeds, of one seed over problems; dotted: the matched KL"


def draw(methods: Sequence[KlMethod], path: Path) -> list[Path]:
    """One line a method along its training, a cross of intervals at each checkpoint."""
    curves = [curve(method) for method in methods]
    with figures.panels(1, 2, margin_in=0.6) as (figure, axes):
        for axis, kl in zip(axes, KLS, strict=True):
            for index, (method, points) in enumerate(zip(methods, curves, strict=True)):
                draw_curve(axis, index, _label(method), points, kl)
            level = matched_level(methods, kl)
            if level is not None:
                axis.axvline(level, color="0.5", linestyle=":", linewidth=0.8, zorder=0)
            axis.set_xlabel(LABELS[kl])
            axis.set_xlim(left=0)
        axes[0].set_ylabel("test pass@1")
        figures.caption(figure, CAPTION)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def draw_curve(axis: Axes, index: int, name: str, points: Sequence[KlPoint], kl: str) -> None:
    style = figures.line_style(index)
    nats: list[Estimate] = [getattr(point, kl) for point in points]
    scores = [point.pass_at_1 for point in points]
    xs, ys = [x.value for x in nats], [y.value for y in scores]
    axis.plot(xs, ys, marker=figures.marker(index), label=name, clip_on=False, zorder=2, **style)
    for x, y in zip(nats, scores, strict=True):
        for bar, places in ((x, ([x.low, x.high], [y.value] * 2)),
                            (y, ([x.value] * 2, [y.low, y.high]))):  # fmt: skip
            if bar.low is not None and bar.high is not None:
                axis.plot(*places, color=style["color"], linewidth=0.8, alpha=0.5, zorder=1)


def _label(method: KlMethod) -> str:
    num_seeds = len(method.rows_by_seed)
    return f"{method.name} ({num_seeds} seed{'s' if num_seeds > 1 else ''})"
