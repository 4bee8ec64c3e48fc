"""Predicted and measured noise of exact values, by the share of steps that decide.

    python experiments/11_credit/decisive.py [RUN_DIR …]      none: draws again from decisive.csv

Predicted is the trace of a problem's gradient covariance, exact values over RLOO. G rollouts of a
problem; R = 1 where all H hard facts come out right, each with probability q; V_k = q^(H − k) after
k right ones, 0 off the track. With A_i = R_i − mean of the others' R for RLOO, and
A_ik = V_(k+1) − V_k for exact values,

    g_k = 1/G Σ_i A_ik · s_ik · (1, −1)    s = 1 − q where fact k came out right, else −q
    |g_words|² = 1/G² Σ_i A_i² · W         W = Σ over words of 1 − 1/n, of n equally likely ones

    ratio = κ·facts(exact) / (κ·facts(RLOO) + words(RLOO))

κ is how much longer than a word's the gradient of a result's logit is, squared: 1 where all have
logits of their own, and else fitted to what was measured. Facts off the track count as certain.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np

from analysis import figures

HERE = Path(__file__).parent
MEASURED = {"measured": "trace_ratio", "adam": "adam_gain_ratio"}
ENDS = ("", "_low", "_high")
MEASURED_COLUMNS = [f"{name}{end}" for name in MEASURED for end in ENDS]
COLUMNS = (
    "setting", "hard_steps", "steps", "share", "predicted", "fitted", "kappa", *MEASURED_COLUMNS
)  # fmt: skip
NUM_PROBLEMS = 200_000


def traces(task: dict, num_samples: int) -> tuple[float, float, float]:
    """tr Σ on facts by exact values and by RLOO, and on words by RLOO, for κ = 1."""
    rng = np.random.default_rng(0)
    num_hard, q = task["num_hard_steps"], 1 - task["wrong_probability"]
    words = task["num_operations"] * (1 - 1 / task["num_openers"] + task["num_remarks"] * 2 * 7 / 8)
    right_NGH = rng.random((NUM_PROBLEMS, num_samples, num_hard)) < q
    track_NGH = np.cumprod(right_NGH, axis=2)
    reward_NG = track_NGH[..., -1].astype(float)
    met_NGH = np.concatenate([np.ones_like(track_NGH[..., :1]), track_NGH[..., :-1]], axis=2)
    score_NGH = np.where(right_NGH, 1 - q, -q) * met_NGH
    value_H = q ** np.arange(num_hard, -1.0, -1.0)
    exact_NGH = (track_NGH * value_H[1:] - value_H[:-1]) * met_NGH
    others_NG = (reward_NG.sum(1, keepdims=True) - reward_NG) / (num_samples - 1)
    rloo_NG = reward_NG - others_NG

    def on_facts(advantage_NGH: np.ndarray) -> float:
        fact_NH = (advantage_NGH * score_NGH).mean(1)
        # The mean over problems is spread over all facts, of which a problem meets num_hard.
        shared = num_hard / task["num_hard_facts"] * fact_NH.mean(0) @ fact_NH.mean(0)
        return float(2 * ((fact_NH**2).sum(1).mean() - shared))

    on_words = float((rloo_NG**2).sum(1).mean() / num_samples**2 * words)
    return on_facts(exact_NGH), on_facts(rloo_NG[..., None]), on_words


def ratio(of: tuple[float, float, float], kappa: float) -> float:
    exact, rloo, words = of
    return kappa * exact / (kappa * rloo + words)


def row_of(folder: Path) -> dict:
    """A row from a run's config and the table of gradient-variance in its folder `gradients`."""
    config = json.loads((folder / "config.json").read_text())
    task = config["task"]
    steps = task["num_operations"] * (1 + task["num_remarks"])
    with (folder / "gradients" / "gradient_variance.csv").open(newline="") as file:
        exact = {
            row["quantity"]: row
            for row in csv.DictReader(file)
            if row["estimator"] == "vine_oracle"
        }
    row = {
        "setting": config["name"].removesuffix("_oracle"),
        "hard_steps": task["num_hard_steps"],
        "steps": steps,
        "share": task["num_hard_steps"] / steps,
        "traces": traces(task, config["rollouts"]["num_samples"]),
    }
    for name, quantity in MEASURED.items():
        for end in ENDS:
            row[f"{name}{end}"] = float(exact[quantity][f"value{end}"])
    return row


def draw(rows: list[dict]) -> None:
    x = [row["share"] for row in rows]
    with figures.panels(1, 2) as (figure, (trace, gain)):
        trace.plot(
            x, [row["predicted"] for row in rows], ":", color="0.4", label="predicted, κ = 1"
        )
        kappa = f"predicted, κ = {rows[0]['kappa']:.0f}"
        trace.plot(x, [row["fitted"] for row in rows], color="0.4", label=kappa)
        for axis, name in ((trace, "measured"), (gain, "adam")):
            bars = [
                [row[name] - row[f"{name}_low"] for row in rows],
                [row[f"{name}_high"] - row[name] for row in rows],
            ]
            y = [row[name] for row in rows]
            axis.errorbar(x, y, bars, fmt="o", color=figures.COLORS[0], label="measured")
            axis.axhline(1, color="0.7", linewidth=0.6)
            axis.set_xlabel("share of steps that decide")
        trace.set_yscale("log")
        trace.set_yticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
        trace.set_title("gradient variance over RLOO's")
        gain.set_title("Adam's gain over RLOO's")
        figures.shared_legend(figure, trace)
        figures.save(figure, HERE / "decisive")


def main(folders: list[Path]) -> None:
    rows = [row_of(folder) for folder in folders]
    if rows:
        kappas = np.geomspace(1, 1000, 601)
        errors = [
            sum(np.log(ratio(row["traces"], kappa) / row["measured"]) ** 2 for row in rows)
            for kappa in kappas
        ]
        best = float(kappas[int(np.argmin(errors))])
        for row in rows:
            of = row.pop("traces")
            row |= {"predicted": ratio(of, 1), "fitted": ratio(of, best), "kappa": best}
        with (HERE / "decisive.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for row in rows:
                writer.writerow(
                    {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
                )
    with (HERE / "decisive.csv").open(newline="") as file:
        draw([{k: v if k == "setting" else float(v) for k, v in row.items()}
              for row in csv.DictReader(file)])  # fmt: skip


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
