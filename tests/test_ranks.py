"""PPO and VinePPO on two ranks under torchrun: the numbers of one process, also when resumed."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.ranks import (
    DIFFER,
    DIFFER_OF_VALUES,
    TIMEOUT_S,
    TOLERANCES,
    Case,
    finish,
    kill_all,
    responses,
    returns,
    rows,
    shared_blocks,
    start,
    weights,
)


@pytest.fixture(scope="module")
def alone(configs, tmp_path_factory) -> Callable[[Case], Path]:
    """The run of one process, made once for every case."""
    runs: dict[Case, Path] = {}

    def run(case: Case) -> Path:
        lone = replace(case, tensor_parallel_size=1)
        if lone not in runs:
            runs[lone] = tmp_path_factory.mktemp("ranks") / "alone"
            finish(start(configs, runs[lone], lone, stage=2, num_ranks=1))
        return runs[lone]

    return run


CASES = [(Case("ppo", "vllm"), 2), (Case("vineppo", "vllm"), 3)]
SLOW_CASES = [
    (Case("ppo", "vllm"), 0),
    (Case("ppo", "vllm"), 3),
    (Case("vineppo", "vllm"), 0),
    (Case("vineppo", "vllm"), 2),
    (Case("vineppo", "vllm", tensor_parallel_size=2), 2),  # one replica of both ranks
    *((Case("vineppo", "transformers"), stage) for stage in (0, 2, 3)),
    *((Case("ppo", "transformers"), stage) for stage in (0, 2, 3)),
]


@pytest.mark.parametrize(
    ("case", "stage"), [*CASES, *(pytest.param(*c, marks=pytest.mark.slow) for c in SLOW_CASES)]
)
def test_two_ranks_train_to_the_numbers_of_one(configs, alone, tmp_path, case, stage):
    """The same responses and values, weights within `TOLERANCES` (relative), every metric within
    1e-3; with a SIGKILL after the first checkpoint and a resume."""
    alone = alone(case)
    run_dir, blocks = tmp_path / "two", shared_blocks()
    process = start(configs, run_dir, case, stage, num_ranks=2)
    deadline = time.monotonic() + TIMEOUT_S
    while not (run_dir / "checkpoints/iter_000001").exists():
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kill_all(process)
    assert shared_blocks() == blocks
    output = finish(start(configs, run_dir, case, stage, num_ranks=2))
    assert output.count("resumed after iteration 1") == 1
    for iteration in (1, 2, 3):
        assert responses(run_dir, iteration) == responses(alone, iteration)
        if case.algorithm == "vineppo":
            assert returns(run_dir, iteration) == returns(alone, iteration)
    for model in ("policy", "critic") if case.algorithm == "ppo" else ("policy",):
        here, there = weights(run_dir, model), weights(alone, model)
        assert (here - there).norm() / there.norm() < TOLERANCES[model]
    differ = DIFFER | DIFFER_OF_VALUES if case.algorithm == "vineppo" else DIFFER
    for here_row, there_row in zip(rows(run_dir), rows(alone), strict=True):
        assert here_row.keys() == there_row.keys()
        assert here_row["rollout/engine_logprob_gap_max"] < 1e-3  # else an engine's weights are old
        for name, value in there_row.items():
            if name not in differ:
                assert here_row[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    for name in ("iter_000000.json", "iter_000002.json"):
        evaluations = [json.loads((d / "evaluations" / name).read_text()) for d in (run_dir, alone)]
        assert evaluations[0]["num_correct_P"] == evaluations[1]["num_correct_P"]
