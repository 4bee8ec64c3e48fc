"""The look of every figure: colour-blind-safe, small, readable in print; one colour a method."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator, NullFormatter

from vineppo.run_dir import write_atomic

# Okabe & Ito, 2008: distinct with every common kind of colour blindness.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
# Tol, 2021, likewise: of phases, which are no methods.
PHASE_COLORS = (
    "#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00"
)  # fmt: skip
OTHER_COLORS = ("#8C564B", "#17BECF", "#9467BD", "#BCBD22", "#E377C2")  # of names in no table
GREY = "#7F7F7F"  # for what no method can do in earnest
# Methods as people call them and their colours, by what a run's name contains; the first that fits.
METHODS: tuple[tuple[str, str, str | None], ...] = (
    (r"control", "RLOO in the martingale's update", "#CC6677"),  # names two others
    (r"(vineppo_)?probe", "probe, corrected", "#332288"),
    (r"vineppo", "VinePPO", COLORS[0]),
    (r"spo[_-]chain", "SPO-chain", "#44AA99"),
    (r"spo[_-]tree", "SPO-tree", "#AA4499"),
    (r"joined_privileged_slower", "joined, answer in view, 5e-5", "#A0B050"),
    (r"joined_privileged", "joined, answer in view", "#6F8F2F"),
    (r"joined", "joined", "#000075"),
    (r"(vine_)?privileged", "martingale, answer in view", "#117733"),
    (r"vine_efficient|martingale", "martingale", "#882255"),
    (r"modern[_ ]?ppo", "modern PPO", COLORS[4]),
    (r"ppo|(?=two_critics)", "PPO", COLORS[1]),
    (r"grpo", "GRPO", COLORS[2]),
    (r"gigpo", "GiGPO", "#6699CC"),
    (r"rloo", "RLOO", COLORS[3]),
    (r"reinforce(_plus_plus|\+\+)?[_ ]baseline", "REINFORCE++ baseline", COLORS[6]),
    (r"reinforce(_plus_plus|\+\+)?", "REINFORCE++", COLORS[5]),
    (r"remax", "ReMax", COLORS[7]),
    (r"oracle", "lagging count of skills", GREY),
    (r"group_mean", "K = 0", "#999933"),
    (r"group$", "the group's mean alone", "#994455"),
    (r"expected", "cuts by expectation", "#3D7A99"),
    (r"cuts", "cuts", "#499894"),
    (r"restem", "RestEM", "#DDCC77"),
    (r"dpo_steps", "DPO-positive, steps", "#88CCEE"),
    (r"dpo", "DPO-positive", "#661100"),
    (r"(^|_)critics?$", "frozen policy", None),
)
METHOD_COLORS = {label: color for _, label, color in METHODS if color}
# What a name says after its method.
VARIANTS = (
    (r"gae_095", "λ = 0.95"),
    (r"gae", "return less value"),
    (r"vine", "difference of values"),
    (r"shared", "shared critic"),
    (r"bigger", "bigger critic"),
    (r"pretrained", "critic learns first"),
    (r"two_critics", "two critics"),
    (r"step", "λ = 0.9 by steps"),
    (r"last_epoch", "last epoch"),
    (r"longer", "9 iterations"),
    (r"shrunk", "shrunk mean"),
    (r"view", "answer in view"),
    (r"posterior", "the martingale's values"),
    (r"large", "3 large batches"),
    (r"positive", "likelihood of right answers"),
    (r"validated", "validated"),
    (r"k([\d.]+)", r"K = \1"),
    (r"t([\d.]+)", r"T = \1"),
    (r"seed[_ ]?(\d+)", r"seed \1"),
)
# Values as people call them, where a name does not read as it is.
PREDICTORS = {
    "oracle": "lagging count of skills",
    "posterior": "martingale, rewards alone",
    "privileged": "martingale, answer in view",
    "zero_head": "critic, head at zero",
    "bounded": "critic, cross-entropy",
    "bigger": "critic, twice the layers",
    "ensemble": "two critics",
    "answer": "critic, answer in view",
    "siblings": "critic, siblings in view",
    "asked": "yes/no, zero-shot",
    "judge": "yes/no, trained",
    "fused": "yes/no fused with the group",
    "probe": "probe of the policy's states",
    "group_mean_others": "group mean, others",
    **dict.fromkeys(("group", "values/group_mean"), "group mean, training"),
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MAX_SERIES = 6  # of a panel
LINE_STYLES = ("-", "--", "-.", ":")
PANEL_WIDTH_IN, PANEL_HEIGHT_IN = 2.4, 2.4
MAX_WIDTH_IN = 7.4  # on a page of 6.5 in the text has 7 pt
DOTS_PER_IN = 300
LETTERS_PER_IN = 15  # of 8 pt text
LEGEND_HANDLE_LETTERS = 8  # the room of a legend's line and the gap after its name

_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def panels(
    num_rows: int, num_columns: int, margin_in: float = 0.0
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of equal panels, row by row, in the project's style; the margin is for a legend."""
    with mpl.rc_context(_STYLE):
        width = min(PANEL_WIDTH_IN * num_columns + margin_in, MAX_WIDTH_IN)
        figure = Figure(figsize=(width, PANEL_HEIGHT_IN * num_rows))
        axes = figure.subplots(num_rows, num_columns, squeeze=False)
        yield figure, list(axes.flat)


@contextmanager
def grid(count: int, max_columns: int) -> Iterator[tuple[Figure, list[Axes]]]:
    """`count` panels in as few rows as `max_columns` a row allow."""
    num_columns = min(count, max_columns)
    with panels(-(-count // num_columns), num_columns) as (figure, axes):
        for unused in axes[count:]:
            unused.set_visible(False)
        yield figure, axes[:count]


def in_order(count: int) -> list[str]:
    """Colours from dark to light, of what has an order: temperatures, iterations. No method's."""
    shares = 0.85 * np.arange(count) / max(count - 1, 1)
    return [to_hex(color) for color in mpl.colormaps["plasma"](shares)]


def marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def method_labels(names: Sequence[str]) -> dict[str, str]:
    """Methods as people call them, by name: "VinePPO, K = 9" for `long_vineppo_k9`.

    A name that none of `METHODS` is in stays as it is, and so do all where two would read the same.
    """
    labels = {}
    for name in names:
        method, _, variant = _method(name)
        labels[name] = f"{method}, {variant}" if variant else method
    return labels if len(set(labels.values())) == len(labels) else {name: name for name in names}


def method_label(name: str) -> str:
    """The same of a method that stands alone."""
    return method_labels([name])[name]


def setting_of(name: str) -> str:
    """The part of a run's name before its method: "credit_long" of `credit_long_vineppo`.

    Empty for a name that none of `METHODS` is in.
    """
    found = _find(name)
    return name[: found[0].start()].strip("_, ") if found else ""


def seed_labels(rows: pd.DataFrame) -> dict[str, str]:
    """`method_labels` of the rows' methods and their number of seeds: "PPO (3 seeds)"."""
    counts = rows.groupby("method", sort=False)["seed"].nunique()
    labels = method_labels(list(counts.index))
    return {
        name: f"{labels[name]} ({count} seed{'s' if count > 1 else ''})"
        for name, count in counts.items()
    }


def method_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dashes and marker of each method, by its name.

    A method of `METHODS` has one colour in every figure, and so has each of its variants: a shade
    of it. Other names take `OTHER_COLORS`.
    """
    others = cycle(OTHER_COLORS)
    styles = {}
    for index, name in enumerate(names):
        method, color, variant = _method(name)
        place = [_method(other)[0] for other in names[:index]].count(method)
        styles[name] = {
            "color": shaded(color, variant) if color else next(others),
            "linestyle": LINE_STYLES[place % len(LINE_STYLES)],
            "marker": marker(index),
        }
    return styles


def shaded(color: str, variant: str) -> str:
    """The colour of a method's variant: "K = 3" is lighter than "K = 9", "K = 27" is darker."""
    shade = 0.0  # on the way to white, below 0 to black
    if found := re.search(r"\bK = ([\d.]+)", variant):
        shade = 0.6 - 0.3 * math.log(max(float(found[1]), 1), 3)
    elif variant:
        shade = (-0.4, -0.2, 0.2, 0.4, 0.6)[sum(map(ord, variant)) % 5]
    rgb = np.array(to_rgb(color))
    return to_hex(rgb + min(abs(shade), 0.6) * ((shade > 0) - rgb))


def predictor_label(predictor: str) -> str:
    """ "mc_9" as "MC, K = 9", "zero_head" as "critic, head at zero"."""
    if match := re.fullmatch(r"mc(_train)?_(\d+)", predictor):
        return f"MC, K = {match[2]}" + (", training" if match[1] else "")
    return PREDICTORS.get(predictor, predictor.replace("_", " "))


def curve(
    axis: Axes,
    frame: pd.DataFrame,
    x: str,
    y: str,
    style: dict[str, Any],
    *,
    scale: float = 1.0,
    shift: float = 0.0,
    ends: str = "band",
) -> None:
    """A line of the column `y` over `x`, and its interval from `y_low` to `y_high`.

    `ends` draws the interval as a "band", as "bars" or not at all (""). The places are
    x/scale + shift. Rows without `x` or `y` are left out, and so are intervals that are empty.
    """
    frame = frame.dropna(subset=[x, y])
    if frame.empty:  # an empty line that is not clipped lies at (0, 0) and takes room there
        return
    axis.plot(frame[x] / scale + shift, frame[y], clip_on=False, **style)
    if not ends:
        return
    known = frame.dropna(subset=[f"{y}_low", f"{y}_high"])
    places, low, high = known[x] / scale + shift, known[f"{y}_low"], known[f"{y}_high"]
    if ends == "band":
        axis.fill_between(places, low, high, color=style["color"], alpha=0.18, linewidth=0)
    else:
        axis.vlines(places, low, high, color=style["color"], linewidth=0.8)


def running_mean(series: Any, reach: int) -> Any:
    """Mean of each value and those up to `reach` away on either side that exist."""
    return series.rolling(2 * reach + 1, center=True, min_periods=1).mean()


def whole_iterations(axis: Axes) -> None:
    axis.set_xlabel("iteration")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def logarithmic(axis: Axes, low: float, high: float, numbers: Formatter) -> None:
    """A log axis from `low` to `high` with `numbers` at a few of its ticks."""
    axis.set_xscale("log", nonpositive="clip")
    axis.set_xlim(low, high)
    steps = (1, 2, 5) if high / low < 30 else (1, 3) if high / low < 100 else (1,)
    axis.xaxis.set_major_locator(LogLocator(subs=steps))
    axis.xaxis.set_major_formatter(numbers)
    axis.xaxis.set_minor_formatter(NullFormatter())


def label_rows(axes: Sequence[Axes], text: str) -> None:
    """Names the y axis at the first panel of every row."""
    for axis in axes:
        spec = axis.get_subplotspec()
        if spec is not None and spec.is_first_col():
            axis.set_ylabel(text)


def same_ylim(axes: Sequence[Axes]) -> None:
    """Gives all panels the limits that hold them all."""
    limits = [limit for axis in axes for limit in axis.get_ylim()]
    for axis in axes:
        axis.set_ylim(min(limits), max(limits))


def shared_legend(figure: Figure, *axes: Axes) -> None:
    """One legend under all panels of what `axes` name, each name once; the figure grows by it.

    It has as many columns as its longest name leaves room for.
    """
    entries = [axis.get_legend_handles_labels() for axis in axes]
    named = {name: handle for entry in entries for handle, name in zip(*entry, strict=True)}
    width, height = figure.get_size_inches()
    columns = int(LETTERS_PER_IN * width // (max(map(len, named)) + LEGEND_HANDLE_LETTERS))
    columns = min(max(columns, 1), len(named))
    legend = figure.legend(named.values(), named, loc="outside lower center", ncols=columns)
    figure.set_size_inches(width, height + legend.get_window_extent().height / figure.dpi)


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes `path`.png with 300 dots an inch."""
    target = path.with_name(f"{path.name}.png")
    write_atomic(target, render(figure))
    return [target]


def render(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_IN)
    return buffer.getvalue()


def _find(name: str) -> tuple[re.Match[str], str, str | None] | None:
    """Where a run's name, or a label, says its method; the method and its colour."""
    for pattern, label, color in METHODS:
        if match := re.search(rf"^{re.escape(label)}|{pattern}", name, re.IGNORECASE):
            return match, label, color
    return None


def _method(name: str) -> tuple[str, str | None, str]:
    """The method that a name says, its colour, and what people call the rest of the name."""
    last = name.rpartition("/")[2]  # of a run directory, not what it lies in
    if (found := _find(last)) is None:
        return name, None, ""
    match, label, color = found
    variant = last[match.end() :].strip("_, ")
    for pattern, text in VARIANTS:
        variant = re.sub(rf"(?:^|_|, ?){pattern}(?=[_,]|$)", rf", {text}", variant)
    return label, color, variant.strip("_, ")
