"""Predicted and measured noise of exact values, by the share of steps that decide.

    python experiments/11_credit/decisive.py [RUN_DIR …]      none: draws again from decisive.csv

Predicted is the trace of a problem's gradient covariance, exact values over RLOO, where every word
and every result has logits of its own. G rollouts of a problem; R = 1 where all H hard facts come
out right, each with probability q; V_k = q^(H − k) after k right ones, 0 off the track. With
A_i = R_i − mean of the others' R for RLOO and A_ik = V_(k+1) − V_k for exact values,

    g_k = 1/G Σ_i A_ik · s_ik   (1, −1)   s = 1 − q where fact k came out right, else −q
    |g_words|² = 1/G² Σ_i A_i² · W        W = Σ over words of 1 − 1/n, of n equally likely ones

and exact values leave nothing on words. Facts that a rollout off the track meets are certain.
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
COLUMNS = ("setting", "hard_steps", "steps", "share", "predicted", *MEASURED_COLUMNS)
NUM_PROBLEMS = 200_000


def predicted(task: dict, num_samples: int, rng: np.random.Generator) -> float:
    """tr Σ with exact values over tr Σ of RLOO."""
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
    traces = []
    for advantage_NGH in (exact_NGH, rloo_NG[..., None]):
        fact_NH = (advantage_NGH * score_NGH).mean(1)
        # The mean over problems is spread over all facts, of which a problem meets num_hard.
        shared = num_hard / task["num_hard_facts"] * fact_NH.mean(0) @ fact_NH.mean(0)
        traces.append(2 * ((fact_NH**2).sum(1).mean() - shared))
    return traces[0] / (traces[1] + (rloo_NG**2).sum(1).mean() / num_samples**2 * words)


def row_of(folder: Path) -> dict:
    """Of a run's config and the table that gradient-variance wrote to its folder `gradients`."""
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
        "predicted": predicted(task, config["rollouts"]["num_samples"], np.random.default_rng(0)),
    }
    for name, quantity in MEASURED.items():
        for end in ENDS:
            row[f"{name}{end}"] = float(exact[quantity][f"value{end}"])
    return row


def draw(rows: list[dict]) -> None:
    x = [row["share"] for row in rows]
    with figures.panels(1, 2) as (figure, (trace, gain)):
        trace.plot(x, [row["predicted"] for row in rows], color="0.4", label="predicted")
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
        trace.set_title("trace, exact values over RLOO")
        gain.set_title("what Adam gains, exact values over RLOO")
        trace.legend()
        figures.save(figure, HERE / "decisive")


def main(folders: list[Path]) -> None:
    rows = [row_of(folder) for folder in folders]
    if rows:
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
