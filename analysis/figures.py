"""The look of every figure: colour-blind-safe, small, readable in print; one colour a method."""

import io
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

from vineppo.run_dir.files import write_atomic

# Okabe & Ito, 2008: told apart with every common kind of colour blindness.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
# Tol, 2021, likewise.
MORE_COLORS = ("#44AA99", "#AA4499", "#DDCC77", "#88CCEE", "#661100", "#999933", "#CC6677")
GREY = "#7F7F7F"  # for what no method can do in earnest
# Methods as people call them and their colours, by what a run's name contains; the first that fits.
METHODS: tuple[tuple[str, str, str | None], ...] = (
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
    (r"oracle", "exact values", GREY),
    (r"group_mean", "K = 0", "#999933"),
    (r"group$", "the group's mean alone", "#994455"),
    (r"control", "RLOO in the martingale's update", "#CC6677"),
    (r"expected", "cuts by expectation", "#3D7A99"),
    (r"restem", "RestEM", "#DDCC77"),
    (r"dpo_steps", "DPO-positive, steps", "#88CCEE"),
    (r"dpo", "DPO-positive", "#661100"),
    (r"(^|_)critics?$", "policy at rest", None),
)
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
    "oracle": "exact",
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
# Estimators, as gradient-variance and advise name them and `sampling.estimators` makes them: the
# form of a name, what it is called with what is in brackets, its family and that one's colour.
ESTIMATORS: tuple[tuple[str, str, str, str], ...] = (
    (r"exact|vine_oracle", "exact values", "exact values", GREY),
    (r"martingale_posterior", "martingale", "martingale", "#882255"),
    (r"martingale_privileged", "martingale, answer in view", "martingale", "#882255"),
    (r"vine_(\d+)", "VinePPO, K = {}", "VinePPO (K)", COLORS[0]),
    (r"vine_(\d+)_own", "VinePPO, K = {}, own outcome", "own outcome (K)", COLORS[5]),
    (r"vine_(.+)", "difference of {}", "difference of values", MORE_COLORS[3]),
    (r"gae", "PPO", "PPO", COLORS[1]),
    (r"gae_(.+)", "return less {}", "return less values", COLORS[4]),
    (r"cuts_(\d+)_(\d+)_own", "{} cuts, K = {}", "cuts (cuts, K)", COLORS[2]),
    (
        r"expected_(\d+)_(\d+)_own",
        "{} expected cuts, K = {}",
        "expected (cuts, K)",
        "#3D7A99",
    ),
    (r"coin_(\d+)_(\d+)_own", "one state in {}, K = {}", "coin (one in, K)", MORE_COLORS[5]),
    (r"joined_(\d+)_(\d+)", "{} joined cuts, K = {}", "joined (cuts, K)", "#000075"),
    (
        r"joined_(.+)_(\d+)_(\d+)",
        "{1} joined cuts, K = {2}, with {0}",
        "joined with a martingale (cuts, K)",
        MORE_COLORS[4],
    ),
    (
        r"doubly_robust_(.+)_(\d+)_(\d+)",
        "doubly robust on {}, one state in {}, K = {}",
        "doubly robust (one in, K)",
        MORE_COLORS[6],
    ),
    (r"(rloo|grpo|remax|reinforce_plus_plus)", "{}", "rewards alone", COLORS[3]),
    (r"(.+)", "{}", "others", COLORS[7]),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINE_STYLES = ("-", "--", "-.", ":")
PANEL_WIDTH_IN, PANEL_HEIGHT_IN = 2.6, 2.4
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
        size = (PANEL_WIDTH_IN * num_columns + margin_in, PANEL_HEIGHT_IN * num_rows)
        figure = Figure(figsize=size)
        axes = figure.subplots(num_rows, num_columns, squeeze=False)
        yield figure, list(axes.flat)


@contextmanager
def grid(
    count: int, max_columns: int, margin_in: float = 0.0
) -> Iterator[tuple[Figure, list[Axes]]]:
    """`count` panels in as few rows as `max_columns` a row allow."""
    num_columns = min(count, max_columns)
    with panels(-(-count // num_columns), num_columns, margin_in) as (figure, axes):
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
        for pattern, text in VARIANTS:
            variant = re.sub(rf"(?:^|_|, ?){pattern}(?=[_,]|$)", rf", {text}", variant)
        variant = variant.strip("_, ")
        labels[name] = f"{method}, {variant}" if variant else method
    return labels if len(set(labels.values())) == len(labels) else {name: name for name in names}


def method_label(name: str) -> str:
    """The same of a method that stands alone."""
    return method_labels([name])[name]


def setting_of(name: str) -> str:
    """What a run's name says before its method: "credit_long" of `credit_long_vineppo`.

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

    A method of `METHODS` has one colour in every figure. Its variants in a figure are shades of it,
    the lighter the smaller their number, and differ in their dashes. Other names take the colours
    left.
    """
    methods = {name: _method(name)[0] for name in names}
    colors = {methods[name]: _method(name)[1] for name in names}
    left = cycle([color for color in COLORS if color not in colors.values()] or COLORS)
    colors = {method: color or next(left) for method, color in colors.items()}
    styles = {}
    for index, (name, method) in enumerate(methods.items()):
        shades = _shades([name for name in names if methods[name] == method])
        place, shade = list(shades).index(name), shades[name]
        rgb = np.array(to_rgb(colors[method]))
        styles[name] = {
            "color": to_hex(rgb + abs(shade) * ((shade > 0) - rgb)),
            "linestyle": LINE_STYLES[place % len(LINE_STYLES)],
            "marker": marker(index),
        }
    return styles


def estimator_family(name: str) -> tuple[str, str, str, list[str]]:
    """What `ESTIMATORS` has of a name, and what is in brackets."""
    return next(
        (label, family, color, list(found.groups()))
        for form, label, family, color in ESTIMATORS
        if (found := re.fullmatch(form, name))
    )


def estimator_label(name: str) -> str:
    """ "VinePPO, K = 9" of "vine_9", "return less probe, corrected" of "gae_probe"."""
    label, _, _, numbers = estimator_family(name)
    if numbers == [name]:
        return method_label(name)
    shown = [number if number.isdecimal() else predictor_label(number) for number in numbers]
    return label.format(*shown)


def estimator_color(name: str) -> str:
    """That of its family, or of the method that it is."""
    _, _, color, numbers = estimator_family(name)
    return str(method_styles([name])[name]["color"]) if numbers == [name] else color


def predictor_label(predictor: str) -> str:
    """ "mc_9" as "MC, K = 9", "zero_head" as "critic, head at zero"."""
    if match := re.fullmatch(r"mc(_train)?_(\d+)", predictor):
        return f"MC, K = {match[2]}" + (", training" if match[1] else "")
    return PREDICTORS.get(predictor, predictor.replace("_", " "))


def phase_color(name: str, names: Sequence[str]) -> str:
    """The colour of one of `names`, the parts of an iteration; "other" is grey."""
    return "#BBBBBB" if name == "other" else COLORS[names.index(name) % len(COLORS)]


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


def whole_iterations(axis: Axes) -> None:
    axis.set_xlabel("iteration")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def logarithmic(axis: Axes, low: float, high: float, numbers: Formatter) -> None:
    """A log axis from `low` to `high` with `numbers` at a few of its ticks."""
    axis.set_xscale("log", nonpositive="clip")
    axis.set_xlim(low, high)
    steps = (1, 2, 5) if high / low < 30 else (1, 3) if high / low < 1000 else (1,)
    axis.xaxis.set_major_locator(LogLocator(subs=steps))
    axis.xaxis.set_major_formatter(numbers)
    axis.xaxis.set_minor_formatter(NullFormatter())


def label_rows(axes: Sequence[Axes], text: str) -> None:
    """Names the y axis at the first panel of every row."""
    for axis in axes:
        if axis.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            axis.set_ylabel(text)


def same_ylim(axes: Sequence[Axes]) -> None:
    """Gives all panels the limits that hold them all."""
    limits = [limit for axis in axes for limit in axis.get_ylim()]
    for axis in axes:
        axis.set_ylim(min(limits), max(limits))


def shared_legend(figure: Figure, *axes: Axes) -> None:
    """One legend under all panels of what `axes` name, each name once.

    It has as many columns as its longest name leaves room for.
    """
    entries = [axis.get_legend_handles_labels() for axis in axes]
    named = {name: handle for entry in entries for handle, name in zip(*entry, strict=True)}
    letters_a_line = LETTERS_PER_IN * figure.get_size_inches()[0]
    columns = int(letters_a_line // (max(map(len, named)) + LEGEND_HANDLE_LETTERS))
    columns = min(max(columns, 1), len(named))
    figure.legend(named.values(), named, loc="outside lower center", ncols=columns)


def legend_below(figure: Figure, *axes: Axes) -> None:
    """`shared_legend` in a figure that grows by as much as it takes."""
    shared_legend(figure, *axes)
    width, height = figure.get_size_inches()
    extent = figure.legends[0].get_window_extent()
    figure.set_size_inches(width, height + extent.height / figure.dpi)


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
    """The method that a name says, its colour, and what else the name says after it."""
    own = name.rpartition("/")[2]  # of a run directory, not what it lies in
    if found := _find(own):
        match, label, color = found
        return label, color, own[match.end() :].strip("_, ")
    return name, None, ""


def _shades(variants: Sequence[str]) -> dict[str, float]:
    """How far each variant is from its method's colour: on the way to white, below 0 to black.

    One alone has the colour, and so has the method itself among its variants; it comes first.
    """
    others = sorted(set(variants), key=_natural)
    plain = [name for name in others if not _method(name)[2]] or others
    if len(plain) > 1:
        return dict(zip(others, np.linspace(0.6, -0.4, len(others)).tolist(), strict=True))
    others = [name for name in others if name not in plain]
    half = len(others) // 2
    light = np.linspace(0.6, 0, half, endpoint=False)
    dark = np.linspace(-0.4, 0, len(others) - half, endpoint=False)[::-1]
    return dict(zip([*plain, *others], [0.0, *light.tolist(), *dark.tolist()], strict=True))


def _natural(name: str) -> list[Any]:
    """The order of `k3` before `k27`."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
