"""Whether two runs of one config gave the same: before and after a change of the code.

`python -m benchmarks.same_results BEFORE AFTER` compares run directories, iteration by iteration.
It counts rollouts with other tokens and states with other returns, and gives the greatest
difference of an advantage where all tokens are the same. Two more say how far apart runs are that
round otherwise (bfloat16): the mean rewards, and the mean and the greatest difference of
log-probabilities before two responses part. At the end it gives ‖θ_after − θ_before‖ ÷ ‖θ_before‖
of the final policies. It exits with 1 where tokens or returns differ.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file

from benchmarks.harness import run_main
from vineppo.errors import UserError
from vineppo.run_dir import read_parquet


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_results",
        description="whether two runs of one config gave the same tokens and returns",
    )
    for name in ("before", "after"):
        parser.add_argument(name, type=Path, metavar=name.upper(), help="a run directory")
    arguments = parser.parse_args()
    before, after = arguments.before, arguments.after
    iterations = iterations_of(before)
    if (others := iterations_of(after)) != iterations:
        raise UserError(f"{before} and {after}: {len(iterations)} and {len(others)} iterations")
    policies = [weights_of(run) for run in (before, after)]
    table = Table(
        "iter-\nation", "roll-\nouts", "other\ntokens", "states", "other\nreturns",
        "advan-\ntages\ngreatest", "log-probs\nmean\ngreatest", "rewards\nbefore\nafter",
    )  # fmt: skip
    num_differing = 0
    for name in iterations:
        old, new = (read_parquet(run / "rollouts" / f"{name}.parquet") for run in (before, after))
        old_values, new_values = (
            _values(run / "values" / f"{name}.parquet") for run in (before, after)
        )
        tokens = differing(old, new, "response_ids")
        returns = differing(old_values, new_values, "returns_K")
        comparable = not tokens and all(
            len(a["advantages_S"]) == len(b["advantages_S"]) for a, b in zip(old, new, strict=True)
        )
        advantages = f"{advantage_difference(old, new):.2g}" if comparable else ""
        counts = (len(old), tokens, len(old_values), returns)
        apart = logprob_differences(old, new) or [float("nan")]
        logprobs = f"{mean(apart):.2g}\n{max(apart):.2g}"
        rewards = "\n".join(f"{mean(row['reward'] for row in rows):.3f}" for rows in (old, new))
        columns = (*(str(count) for count in counts), advantages, logprobs, rewards)
        table.add_row(name.removeprefix("iter_"), *columns)
        num_differing += tokens + returns
    Console().print(table)
    print(f"final policies: {weights_difference(*policies):.2g} of their norm apart")
    sys.exit(1 if num_differing else 0)


def differing(before: list[dict[str, Any]], after: list[dict[str, Any]], column: str) -> int:
    """How many rows differ in `column`, a missing row counted as differing.

    `differing([{"x": 1}, {"x": 2}], [{"x": 1}], "x")` is 1.
    """
    same = sum(a[column] == b[column] for a, b in zip(before, after, strict=False))
    return max(len(before), len(after)) - same


def advantage_difference(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> float:
    return max(
        abs(a - b)
        for row, other in zip(before, after, strict=True)
        for a, b in zip(row["advantages_S"], other["advantages_S"], strict=True)
    )


def logprob_differences(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[float]:
    """Those of all tokens that two responses begin with alike."""
    rows = zip(before, after, strict=False)
    return [abs(a - b) for row, other in rows for a, b in common_logprobs(row, other)]


def common_logprobs(row: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Pairs of both, until a token differs: ids [4, 5, 6] and [4, 5, 7, 8] have two."""
    columns = [r[name] for r in (row, other) for name in ("response_ids", "logprobs")]
    for token, logprob, other_token, other_logprob in zip(*columns, strict=False):
        if token != other_token:
            return
        yield logprob, other_logprob


def iterations_of(run: Path) -> list[str]:
    names = sorted(path.stem for path in (run / "rollouts").glob("iter_*.parquet"))
    if not names:
        raise UserError(f"{run}: no rollouts")
    return names


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    files = sorted((run / "final" / "policy").glob("*.safetensors"))
    if not files:
        raise UserError(f"{run}/final/policy: no weights")
    return {name: weight for file in files for name, weight in load_file(file).items()}


def weights_difference(old: dict[str, torch.Tensor], new: dict[str, torch.Tensor]) -> float:
    if old.keys() != new.keys():
        raise UserError("the final policies are of different models")
    square = sum(float((new[key].double() - old[key].double()).square().sum()) for key in old)
    return float((square / sum(float(w.double().square().sum()) for w in old.values())) ** 0.5)


def _values(path: Path) -> list[dict[str, Any]]:
    """No rows in a run without Monte-Carlo values."""
    return read_parquet(path) if path.exists() else []


if __name__ == "__main__":
    run_main(main)
