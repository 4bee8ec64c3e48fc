"""Predicted and measured noise of exact values, by the share of steps that decide.

    python experiments/11_credit/decisive.py [FOLDER of gradient-variance …]

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
COLUMNS = ("setting", "hard_steps", "steps", "share", "predicted", "measured", "low", "high")
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


def main(folders: list[Path]) -> None:
    rows = []
    if not folders:  # draws again what is there
        with (HERE / "decisive.csv").open(newline="") as file:
            rows = [{key: row[key] if key == "setting" else float(row[key]) for key in COLUMNS}
                    for row in csv.DictReader(file)]  # fmt: skip
    for folder in folders:
        config = json.loads((folder / "config.json").read_text())
        task = config["task"]
        steps = task["num_operations"] * (1 + task["num_remarks"])
        with (folder / "gradients" / "gradient_variance.csv").open(newline="") as file:
            ratio = next(
                row for row in csv.DictReader(file)
                if (row["estimator"], row["quantity"]) == ("vine_oracle", "trace_ratio")
            )  # fmt: skip
        share = task["num_hard_steps"] / steps
        numbers = predicted(task, config["rollouts"]["num_samples"], np.random.default_rng(0))
        numbers = [share, numbers, *(float(ratio[f"value{end}"]) for end in ("", "_low", "_high"))]
        setting = config["name"].removesuffix("_oracle")
        rows.append(
            dict(zip(COLUMNS, [setting, task["num_hard_steps"], steps, *numbers], strict=True))
        )
    with (HERE / "decisive.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: f"{value:.4g}" if key not in ("setting",) else value
                          for key, value in row.items()} for row in rows)  # fmt: skip
    with figures.panels(1, 1, margin_in=1) as (figure, (axis,)):
        for index, setting in enumerate(dict.fromkeys(row["setting"] for row in rows)):
            own = sorted((row for row in rows if row["setting"] == setting),
                         key=lambda row: row["share"])  # fmt: skip
            x, style = [row["share"] for row in own], figures.line_style(index)
            axis.plot(x, [row["predicted"] for row in own], **style, label=f"{setting}, predicted")
            bars = np.array([[row["measured"] - row["low"], row["high"] - row["measured"]]
                             for row in own]).T  # fmt: skip
            axis.errorbar(
                x, [row["measured"] for row in own], bars, fmt=figures.marker(index),
                color=style["color"], label=f"{setting}, measured",
            )  # fmt: skip
        axis.axhline(1, color="0.7", linewidth=0.6)
        axis.set_yscale("log")
        axis.set_xlabel("share of steps that decide")
        axis.set_ylabel("trace over RLOO's, exact values")
        axis.legend()
        figures.save(figure, HERE / "decisive")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
