"""Small runs on one rank and on two: how they start, and what of them must agree."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet
import torch
from safetensors.torch import load_file


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parents[1]
SMALL = {
    "num_iterations": 3,
    "rollouts.num_prompts": 6,
    "rollouts.num_samples": 4,
    "optimization.batch_size": 10,
    "optimization.micro_batch_size": 3,
    "optimization.logprobs_micro_batch_size": 5,
    "task.num_train_problems": 100,
    "task.num_test_problems": 7,
    "evaluation.every": 2,
    "checkpoint.every": 1,
    "checkpoint.keep": 3,
}


CRITIC = {"critic.batch_size": 16, "critic.micro_batch_size": 5}


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


TIMEOUT_S = 400


@dataclass(frozen=True)
class Case:
    """What is trained; the embedded models are float32, which stage 0 takes."""

    algorithm: str
    engine: str
    tensor_parallel_size: int = 1

    @property
    def config(self) -> str:
        suffix = "_transformers" if self.engine == "transformers" else ""
        return f"demo_{self.algorithm}{suffix}.jsonnet"

    def settings(self, stage: int) -> dict[str, object]:
        found = {**SMALL, "optimization.zero_stage": stage}
        if self.tensor_parallel_size > 1:
            found["engine.tensor_parallel_size"] = self.tensor_parallel_size
        if self.algorithm == "ppo":
            found |= {**CRITIC, "critic.zero_stage": stage}
        return found


def start(
    configs: Path, run_dir: Path, case: Case, stage: int, num_ranks: int
) -> subprocess.Popen[bytes]:
    settings = case.settings(stage)
    command = ["train", str(configs / case.config), f"--run-dir={run_dir}"]
    command += [f"--set={key}={value}" for key, value in settings.items()]
    launcher = TORCHRUN if num_ranks == 2 else [sys.executable]
    return subprocess.Popen(
        [*launcher, str(SUPPORT / "sharding.py"), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )


def finish(process: subprocess.Popen[bytes]) -> str:
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output.decode()
    return output.decode()


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the launcher and its ranks, which live in sessions of their own.

    Python's trackers of shared memory end by themselves, after vLLM's message queues.
    """
    for member in [*psutil.Process(process.pid).children(recursive=True), process]:
        if isinstance(member, subprocess.Popen) or not is_tracker(member):
            member.kill()
    process.communicate()


def is_tracker(process: psutil.Process) -> bool:
    try:
        return any("resource_tracker" in part for part in process.cmdline())
    except psutil.Error:  # it has just ended
        return True


def shared_blocks() -> set[str]:
    """What ranks that sample together exchange activations through, by its names."""
    return {path.name for path in Path("/dev/shm").glob("*cpushm*")}


def rows(run_dir: Path) -> list[dict[str, float]]:
    found = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in row.items() if not k.startswith(("time/", "memory/"))} for row in found
    ]


def weights(run_dir: Path, model: str) -> torch.Tensor:
    tensors = load_file(run_dir / "final" / model / "model.safetensors")
    return torch.cat([tensors[name].flatten() for name in sorted(tensors)])


def responses(run_dir: Path, iteration: int) -> list[list[int]]:
    table = pyarrow.parquet.read_table(run_dir / f"rollouts/iter_{iteration:06d}.parquet")
    return table.column("response_ids").to_pylist()


def returns(run_dir: Path, iteration: int) -> dict[tuple[object, ...], list[float]]:
    """The returns of every state of every rollout."""
    table = pyarrow.parquet.read_table(run_dir / f"values/iter_{iteration:06d}.parquet")
    keys = ("problem_id", "rollout_index", "step_index")
    return {tuple(row[key] for key in keys): row["returns_K"] for row in table.to_pylist()}


# A critic learns at ten times the policy's rate and magnifies the order of sums: measured
# up to 2e-5, policies up to 4e-7.
TOLERANCES = {"policy": 1e-5, "critic": 1e-4}


# How full the caches of engines and graders are depends on what each of them sees, and a rank
# counts its own padding.
DIFFER = {
    "policy/padding_frac",
    "tokens/prefix_cached",
    "grading/memo_hit_frac",
    "rollout/engine_logprob_gap_max",
    "rollout/engine_logprob_gap_mean",
}


# A state that rollouts of two replicas share is sampled by both.
DIFFER_OF_VALUES = {
    "tokens/prompt",
    "tokens/values",
    "values/num_continuations",
    "grading/num_graded",
    "grading/no_answer_frac",
}


CASE = Case("vineppo", "transformers")


LIMIT_S = 60


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
