"""Every estimator of the policy gradient: its name, label, colour, config, and what it samples.

The one registry of gradient-variance, advise, their figures and the experiments. A name like
"cuts_2_3_own" has a form and what stands in its brackets, here (2, 3). Needs no torch.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from analysis import figures
from analysis.figures import GREY, METHOD_COLORS

Settings = dict[str, Any]
CRITIC, MONTE_CARLO = "critic", "monte_carlo"
BASELINE, BOUND = "rloo", "exact"  # exact values are what no run can buy
COUNT, OWN, ROOT = r"([1-9]\d*)", r"(_own)?", r"(_shrunk_mean)?"


@dataclass(frozen=True)
class Form:
    """How a kind of estimator is written, called and drawn, and what it is.

    `credit` makes a config's credit table, without segmenter, from the number of step boundaries in
    a rollout and the name's brackets. `values` is the predictor that feeds it, "{}" the one in the
    brackets. `samples` is its further cost: fresh "continuations" of drawn states, its "values", a
    "greedy" response of every problem, or a "tree" instead of the rollouts.
    """

    pattern: str
    label: str
    family: str
    color: str
    credit: Callable[..., Settings] | None = None
    values: str | None = None
    samples: Literal["", "values", "continuations", "greedy", "tree"] = ""


def _vine(num_continuations: str | int, own: str | None = None, **states: Any) -> Settings:
    table = {"kind": "vine", "num_continuations": int(num_continuations)}
    return table | {"states": states or None, "own_return": own is not None}


def _cuts(kind: str) -> Callable[..., Settings]:
    return lambda _, cuts, k, own: _vine(k, own, kind=kind, cuts=int(cuts))


def _expected(by: str, cuts: str, boundaries: float) -> Settings:
    share = min(1.0, int(cuts) / boundaries)
    return {"kind": "expected", "by": by, "probability": share, "floor": 0.0}


def _by_chance(by: str) -> Callable[..., Settings]:
    return lambda boundaries, cuts, k, own: _vine(k, own, **_expected(by, cuts, boundaries))


def _joined(boundaries: float, cuts: str, k: str, root: str | None) -> Settings:
    states = _expected("probability", cuts, boundaries)
    table = {"kind": "joined", "num_continuations": int(k), "states": states}
    return table | {"root": root and root.removeprefix("_")}


def _doubly_robust(_: float, __: str, one_in: str, k: str) -> Settings:
    return {"kind": "doubly_robust", "num_continuations": int(k), "probability": 1 / int(one_in)}


def _tree(_: float, tokens: str, branching: str, as_published: str | None) -> Settings:
    widths = [int(width) for width in branching.split("_")[1:]]
    table = {"kind": "tree", "branching": widths, "tokens_per_level": int(tokens)}
    form = ("mean", "once") if as_published else ("others", "by_leaves")
    return table | dict(zip(("baseline", "train_shared"), form, strict=True))


def _plain(kind: str, **keys: Any) -> Callable[..., Settings]:
    return lambda *_: {"kind": kind} | keys


def _drawn(form: str, label: str, family: str, color: str, credit: Callable[..., Settings]) -> Form:
    """An estimator of K fresh continuations."""
    return Form(form, label, family, color, credit, MONTE_CARLO, "continuations")


_MARTINGALE, _JOINED = METHOD_COLORS["martingale"], METHOD_COLORS["joined"]
# The first that fits a whole name.
FORMS = (
    Form(r"rloo", "RLOO", "rewards alone", METHOD_COLORS["RLOO"], _plain("rloo")),
    Form(r"grpo", "GRPO", "rewards alone", METHOD_COLORS["GRPO"], _plain("grpo")),
    Form(
        r"reinforce_plus_plus", "REINFORCE++", "rewards alone", METHOD_COLORS["REINFORCE++"],
        _plain("reinforce_plus_plus"),
    ),
    Form(
        r"remax", "ReMax", "rewards alone", METHOD_COLORS["ReMax"], _plain("remax"), None, "greedy"
    ),
    Form(r"gae", "PPO", "PPO", METHOD_COLORS["PPO"], _plain("gae"), CRITIC, "values"),
    Form(
        r"gae_(.+)", "return less {}", "return less values", "#8B4513",
        _plain("gae", level="step"), "{}", "values",
    ),
    Form(BOUND, "exact values", "exact values", GREY),
    Form(
        r"vine_(oracle)", "lagging count of skills", "lagging count of skills", GREY,
        lambda *_: _vine(0), "{}", "values",
    ),
    Form(
        r"martingale_(posterior)", "martingale", "martingale", _MARTINGALE, _plain("martingale"),
        "{}", "values",
    ),
    Form(
        r"martingale_(privileged)", "martingale, answer in view", "martingale, answer in view",
        METHOD_COLORS["martingale, answer in view"], _plain("martingale"), "{}", "values",
    ),
    Form(
        r"martingale_(.+)", "martingale {}", "martingale", _MARTINGALE, _plain("martingale"), "{}",
        "values",
    ),
    _drawn(
        f"vine_{COUNT}()", "VinePPO, K = {}", "VinePPO", METHOD_COLORS["VinePPO"],
        lambda _, k, __: _vine(k),
    ),
    _drawn(
        f"vine_{COUNT}(_own)", "VinePPO, K = {}, own outcome", "own outcome", "#56B4C0",
        lambda _, k, own: _vine(k, own),
    ),
    Form(
        r"vine_(.+)", "difference of {}", "difference of values", "#B07AA1", lambda *_: _vine(0),
        "{}", "values",
    ),
    _drawn(f"cuts_{COUNT}_{COUNT}{OWN}", "{} cuts, K = {}", "cuts", "#59A14F", _cuts("random")),
    _drawn(
        f"uncertain_{COUNT}_{COUNT}{OWN}", "{} uncertain cuts, K = {}", "uncertain cuts",
        "#8CD17D", _cuts("uncertain"),
    ),
    _drawn(
        f"surprisal_{COUNT}_{COUNT}{OWN}", "{} surprising cuts, K = {}", "surprising cuts",
        METHOD_COLORS["cuts"], _cuts("surprisal"),
    ),
    _drawn(
        f"expected_{COUNT}_{COUNT}{OWN}", "{} expected cuts, K = {}", "expected cuts",
        METHOD_COLORS["cuts by expectation"], _by_chance("probability"),
    ),
    _drawn(
        f"entropy_{COUNT}_{COUNT}{OWN}", "{} cuts by entropy, K = {}", "cuts by entropy",
        "#86BCB6", _by_chance("entropy"),
    ),
    _drawn(
        f"coin_{COUNT}_{COUNT}{OWN}", "one state in {}, K = {}", "one state in N", "#D37295",
        lambda _, n, k, own: _vine(k, own, kind="coin", probability=1 / int(n)),
    ),
    _drawn(
        f"joined_{COUNT}_{COUNT}{ROOT}", "{} joined cuts, K = {}", "joined", _JOINED, _joined
    ),
    Form(
        f"joined_(.+)_{COUNT}_{COUNT}{ROOT}", "{1} joined cuts, K = {2}, with {0}",
        "joined with a martingale", METHOD_COLORS["joined, answer in view"],
        lambda boundaries, _, *numbers: _joined(boundaries, *numbers), "{}", "continuations",
    ),
    Form(
        f"doubly_robust_(.+)_{COUNT}_{COUNT}", "doubly robust on {}, one state in {}, K = {}",
        "doubly robust", "#B6992D", _doubly_robust, "{}", "continuations",
    ),
    Form(
        r"tree_([1-9]\d*)((?:_(?:[2-9]|[1-9]\d+))+)(_paper)?", "tree{1}, {0} tokens a level",
        "SPO-tree", METHOD_COLORS["SPO-tree"], _tree, None, "tree",
    ),
    Form(r"(.*)", "{}", "others", figures.OTHER_COLORS[0]),  # the run's
)  # fmt: skip


def form_of(name: str) -> tuple[Form, tuple[str, ...]]:
    """The form of a name, and what is in its brackets."""
    return next((f, found.groups()) for f in FORMS if (found := re.fullmatch(f.pattern, name)))


def label(name: str) -> str:
    """ "VinePPO, K = 9" of "vine_9", "return less probe of the policy's states" of "gae_probe"."""
    form, brackets = form_of(name)
    if form is FORMS[-1]:
        return figures.method_label(name)
    shown = [figures.predictor_label(part or "") for part in brackets]
    own = ", own outcome" if brackets[-1:] == ("_own",) and "own" not in form.label else ""
    root = ", shrunk root" if brackets[-1:] == ("_shrunk_mean",) else ""
    return form.label.format(*shown) + own + root


def of_values(predictor: str) -> str:
    """The estimator of differences of a predictor's values: "vine_9" of "mc_9"."""
    name = predictor.removeprefix("mc_")
    return "vine_group" if name == "group_mean_others" else f"vine_{name}"


def color(name: str) -> str:
    """That of its family, of continuations by their number, or of the method that it is."""
    form, brackets = form_of(name)
    if form is FORMS[-1]:
        return str(figures.method_styles([name])[name]["color"])
    return (
        figures.shaded(form.color, f"K = {brackets[0]}") if form.family == "VinePPO" else form.color
    )
