"""`qval`: our truths and values in the form of QVal (arXiv:2606.32034), and its files scored.

QVal keeps one JSON file a method, `{"method_name", "method_type": "gt" or "eval", "values",
"config", "metadata"}`, with a value for every evaluation point in their order and null where there
is none (its `prediction_store.py`, at commit 3519062; folders and names by its
`naming_conventions.md`). Its points are pickles of its own environments, so that ours go by their
names in `metadata.points`: problem, rollout, step. The truth is `sv_mc_mean`, a state's value by
the mean of Monte-Carlo returns.
"""

import argparse
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis import options
from analysis.summary import write_summary
from analysis.tables import Table
from analysis.value_states import Wanted, read_states
from vineppo.errors import UserError
from vineppo.run_dir.files import read_json, strict_json, write_atomic

NAME, TRUTH = "qval", "sv_mc_mean"
POINT = ["problem_id", "rollout_index", "step_index"]
# How a method's values correlate with a truth's, over the points where both have one.
SCORES = Table(
    "qval.csv",
    {"folder": str, "truth": str, "method": str, "num_points": int}
    | dict.fromkeys(("pearson", "spearman", "kendall_tau"), float | None),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_truth(parser)
    parser.add_argument("--continuations", default="1,3,9", metavar="K,K…", help="of mc_K")


def run(paths: list[Path], out: Path, truth: Path | None, continuations: str) -> list[Path]:
    """Each path is a run whose truth has been made, whose files are written and scored, or a
    directory with files of QVal's form, which are scored."""
    foreign = [path for path in paths if not (path / "config.json").exists()]
    runs = [path for path in paths if path not in foreign]
    written: list[Path] = []
    wanted = Wanted(continuations=options.parse_continuations(continuations))
    if runs:
        written = write_predictions(out, read_states(runs, out, truth, wanted))
        foreign.append(out)
    rows = [row for folder in foreign for row in score_rows(folder)]
    return [*written, *SCORES.write(out, rows), write_summary(out, NAME, {"num_rows": len(rows)})]


def write_predictions(out: Path, states: pd.DataFrame) -> list[Path]:
    """`GT_…/gt/sv_mc_mean_….json` and `EVAL_…/eval/PREDICTOR_sv_….json`, for each policy."""
    written = []
    for (method, seed, checkpoint), at in states.groupby(["method", "seed", "checkpoint"]):
        began = (Path(at["run_dir"].iloc[0]) / "config.json").stat().st_mtime
        stamp = datetime.fromtimestamp(began, UTC).strftime("%Y%m%d_%H%M%S")  # a file a run
        points = at.drop_duplicates(POINT).set_index(POINT)
        actor = f"{method}-s{seed}-i{checkpoint}".replace("_", "-")
        place = f"{len(points)}pt_vineppo_{actor}"
        metadata = {
            "points": [list(point) for point in points.index.tolist()],
            "num_samples": int(points["num_samples"].iloc[0]),
        }
        truth_N = (points["num_correct"] / points["num_samples"]).tolist()
        files = {f"GT_{place}/gt/{TRUTH}": ("gt", truth_N)}
        for predictor, own in at.groupby("predictor"):
            said = own.set_index(POINT)["prediction"].reindex(points.index).tolist()
            name = str(predictor).replace("_", "-").replace("/", "-")
            files[f"EVAL_{place}_text/eval/{name}_sv"] = ("eval", said)
        for file, (kind, values_N) in files.items():
            content = {
                "method_name": file.rpartition("/")[2],
                "method_type": kind,
                "values": [None if math.isnan(value) else value for value in values_N],
                "config": {},
                "metadata": metadata,
            }
            path = out / f"{file}_{stamp}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, strict_json(content, indent=2))
            written.append(path)
    return written


def score_rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Every method against every truth of as many points, in the folders GT_X_… and EVAL_X_…."""
    found = [read_prediction(path) | {"path": path} for path in sorted(folder.rglob("*.json"))
             if path.parent.name in ("gt", "eval")]  # fmt: skip
    truths = [one for one in found if one["method_type"] == "gt"]
    if not truths:
        raise UserError(f"{folder} must be a run or hold QVal's gt/*.json, got none")
    for truth in truths:
        place = truth["path"].parents[1].name.removeprefix("GT_")
        for method in found:
            of_place = method["path"].parents[1].name.removeprefix("EVAL_").startswith(place)
            if method["method_type"] == "gt" or not of_place:
                continue
            if len(method["values"]) != len(truth["values"]):
                raise UserError(
                    f"{method['path']} must have a value for each of {len(truth['values'])} "
                    f"points, got {len(method['values'])}"
                )
            about = {"folder": place, "truth": truth["method_name"]}
            about |= {"method": method["method_name"]}
            yield about | correlations(np.array(truth["values"]), np.array(method["values"]))


def read_prediction(path: Path) -> dict[str, Any]:
    """null becomes NaN. Raises `UserError` naming a file that is none of QVal's form."""
    content = read_json(path)
    values = content.get("values")
    is_values = isinstance(values, list) and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in values
    )
    if not is_values or content.get("method_type") not in ("gt", "eval"):
        raise UserError(f"{path} must have values and a method_type of 'gt' or 'eval'")
    assert isinstance(values, list)
    numbers = [math.nan if value is None else float(value) for value in values]
    return {**content, "method_name": str(content.get("method_name")), "values": numbers}


def correlations(truth_N: np.ndarray, said_N: np.ndarray) -> dict[str, Any]:
    """As QVal has them, of the points where both have a value; none of fewer than two."""
    both_N = ~(np.isnan(truth_N) | np.isnan(said_N))
    truth_N, said_N = truth_N[both_N], said_N[both_N]
    varies = len(truth_N) > 1 and np.ptp(truth_N) > 0 and np.ptp(said_N) > 0
    by_name = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall_tau": stats.kendalltau,
    }
    found = {
        name: float(correlate(truth_N, said_N)[0]) if varies else None
        for name, correlate in by_name.items()
    }
    return {"num_points": len(truth_N), **found}
