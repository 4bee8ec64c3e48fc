"""Draws the record of kills, benchmarks/results/kills.csv, in about 20 minutes of one core.

    PYTHONPATH=.:tests python tests/reliability/record_kills.py

Runs of three kinds, of both engines, on one rank and on two, are each trained undisturbed, and
trained again with SIGKILL to a random rank at random moments of random phases: started anew each
time until they are done. One line a kill: how far into which phase it came, and whether the run's
metrics (but for times), tables and final weights are those of the undisturbed one to the last bit.
"""

import csv
import json
import sys
import tempfile
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from random import Random

from support.marks import drawn, left_half_written, traced, train_killed
from support.training import CONFIGS, NO_WANDB, Settings, arguments, assert_same_runs

PATH = CONFIGS.parent / "benchmarks/results/kills.csv"
SEED = 1
KILLS = {1: 9, 2: 2}  # by ranks, of each run
KINDS = {
    "VinePPO": "demo_vineppo",
    "PPO": "demo_ppo",
    "trained predictor": "credit_short_vineppo_probe",
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
    *("checkpoint", "metrics"),
)


def rows() -> Iterator[dict[str, object]]:
    stream, places = Random(SEED), cycle(PHASES)
    for kind, name in KINDS.items():
        for engine in ("vllm", "transformers"):
            for num_ranks, num_kills in KILLS.items():
                settings = {**SIZES, **(NO_WANDB if num_ranks > 1 else {})}
                if kind == "PPO":
                    settings |= OF_CRITIC
                if engine == "transformers":
                    settings["engine"] = TRANSFORMERS
                with tempfile.TemporaryDirectory() as folder:
                    whole, killed = Path(folder) / "whole", Path(folder) / "killed"
                    (Path(folder) / "tmp").mkdir()
                    env = {"TMPDIR": f"{folder}/tmp"}
                    marks = traced(num_ranks, arguments(whole, name, settings), **env)
                    there = {mark.phase for mark in marks}
                    phases = list(islice((p for p in places if p in there), num_kills))
                    moments = drawn(marks, phases, stream)
                    given = arguments(killed, name, settings)
                    kills = train_killed(num_ranks, given, moments, **env)
                    outcome = "equal"
                    try:
                        assert_same_runs(killed, whole)
                        assert not left_half_written(killed)
                        assert not list(Path(env["TMPDIR"]).iterdir())
                    except AssertionError as error:
                        print(error, file=sys.stderr)
                        outcome = "differs"
                    print(kind, engine, num_ranks, len(kills), outcome, flush=True)
                for kill in kills:
                    yield {
                        "run": kind,
                        "engine": engine,
                        "ranks": num_ranks,
                        "killed_rank": kill.rank,
                        "iteration": kill.iteration,
                        "phase": kill.phase,
                        "after_ms": round(1000 * kill.after_s, 1),
                        "is_equal": int(outcome == "equal"),
                    }


def main() -> None:
    found = list(rows())
    with PATH.open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
