"""Draws the record of kills, benchmarks/results/kills.csv, in half an hour of a busy core.

    PYTHONPATH=.:tests python tests/reliability/record_kills.py

Runs of three kinds, of both engines, on one rank and on two, are each trained undisturbed, and
trained again with SIGKILL to a random rank at random moments of random phases: started anew each
time until they are done. One line a kill: how far into which phase it came, and whether the run's
metrics (but for times), evaluations, tables and final weights are those of the undisturbed one to
the last bit.
The runs that the file has are left alone: remove it to begin again.
"""

import csv
import json
import sys
import tempfile
from itertools import product
from pathlib import Path
from random import Random

from support.marks import drawn, left_half_written, traced, train_killed
from support.training import CONFIGS, NO_WANDB, Settings, arguments, assert_same_runs

PATH = CONFIGS.parent / "benchmarks/results/kills.csv"
KILLS = {1: 9, 2: 2}  # by ranks, of each run
KINDS = {
    "VinePPO": "demo_vineppo",
    "PPO": "demo_ppo",
    "trained predictor": "recipes/probe",
}
SIZES: Settings = {
    "num_iterations": 4,
    "rollouts.num_prompts": 3,
    "rollouts.num_samples": 2,
    "optimization.batch_size": 4,
    "optimization.micro_batch_size": 3,
    "task.num_train_problems": 100,
    "task.num_test_problems": 6,
    "evaluation.every": 2,
    "evaluation.num_samples": 2,
    "checkpoint.every": 2,
    "checkpoint.keep": 2,
}
OF_CRITIC: Settings = {"critic.batch_size": 4, "critic.micro_batch_size": 3}
TRANSFORMERS = json.dumps(
    {
        "kind": "transformers",
        "dtype": "float32",
        "max_model_len": 128,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 2048,
    }
)
PHASES = (
    *("rollout", "values", "logprobs", "grading", "sync", "update", "parquet", "evaluate"),
    *("checkpoint", "metrics", "final"),
)


def record(kind: str, engine: str, num_ranks: int) -> list[dict[str, object]]:
    """A line a kill of one of the runs."""
    settings = {**SIZES, **(NO_WANDB if num_ranks > 1 else {})}
    if kind == "PPO":
        settings |= OF_CRITIC
    if engine == "transformers":
        settings["engine"] = TRANSFORMERS
    stream = Random(f"{kind} {engine} {num_ranks}")
    with tempfile.TemporaryDirectory() as folder:
        whole, killed, temporary = (Path(folder) / name for name in ("whole", "killed", "tmp"))
        temporary.mkdir()
        env = {"TMPDIR": str(temporary)}
        marks = traced(num_ranks, arguments(whole, KINDS[kind], settings), **env)
        there = [phase for phase in PHASES if any(mark.phase == phase for mark in marks)]
        phases = stream.sample(there, KILLS[num_ranks])
        moments = drawn(marks, phases, stream)
        kills = train_killed(num_ranks, arguments(killed, KINDS[kind], settings), moments, **env)
        is_equal = True
        try:
            assert_same_runs(killed, whole)
            assert not left_half_written(killed)
            assert not list(temporary.iterdir())
        except AssertionError as error:
            print(error, file=sys.stderr)
            is_equal = False
    return [
        {
            "run": kind,
            "engine": engine,
            "ranks": num_ranks,
            "killed_rank": kill.rank,
            "iteration": kill.iteration,
            "phase": kill.phase,
            "after_ms": round(1000 * kill.after_s, 1),
            "is_equal": int(is_equal),
        }
        for kill in kills
    ]


def main() -> None:
    rows: list[dict[str, object]] = []
    if PATH.exists():
        with PATH.open() as file:
            rows = list(csv.DictReader(file))
    done = {(row["run"], row["engine"], str(row["ranks"])) for row in rows}
    for num_ranks, kind, engine in product(KILLS, KINDS, ("transformers", "vllm")):
        if (kind, engine, str(num_ranks)) in done:
            continue
        rows += record(kind, engine, num_ranks)
        print(rows[-1], flush=True)
        with PATH.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
