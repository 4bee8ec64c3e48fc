"""Small runs on two ranks: how they start, are killed, and what of them must agree with one's."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet
import torch

from support.processes import (
    SUPPORT,
    TIMEOUT_S,
    environment,
    free_port,
    not_ended,
    run_ranks,
)
from support.training import PPO, SHORT, SMALL, Settings, WholeRuns, arguments, weights

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc_per_node=2"]


@dataclass(frozen=True)
class Case:
    """A run on ranks; the embedded models are float32, which stage 0 takes."""

    algorithm: str
    engine: str
    tensor_parallel_size: int = 1
    changes: tuple[tuple[str, str], ...] = ()  # of the config

    @property
    def config(self) -> str:
        is_vllm = self.engine == "vllm"
        return f"demo_{self.algorithm}" if is_vllm else "recipes/transformers_engine"

    @property
    def _alone(self) -> Settings:
        if self.algorithm == "ppo":
            return PPO
        return {**(SMALL if self.engine == "vllm" else SHORT), **dict(self.changes)}

    @property
    def num_iterations(self) -> int:
        return int(str(self._alone["num_iterations"]))

    def settings(self, stage: int) -> Settings:
        found = {**self._alone, "optimization.zero_stage": stage}
        if self.tensor_parallel_size > 1:
            found["engine.kind"] = "vllm_sharded"
            found["engine.tensor_parallel_size"] = self.tensor_parallel_size
        if self.algorithm == "ppo":
            found["critic.zero_stage"] = stage
        return found

    def alone(self, whole_runs: WholeRuns) -> Path:
        """The run of one process, which shards nothing."""
        return whole_runs(self.config, self._alone)

    def arguments(self, run_dir: Path, stage: int, **changes: object) -> list[str]:
        return arguments(run_dir, self.config, {**self.settings(stage), **changes})


CASE = Case("vineppo", "transformers")


def train_on_two(run_dir: Path, case: Case, stage: int) -> str:
    """Forks without a launcher, to the end; what both say."""
    return "".join(run_ranks(2, "support.sharding.main", case.arguments(run_dir, stage)))


def start_torchrun(
    run_dir: Path, case: Case, stage: int, program: str = "sharding.py", **env: str
) -> subprocess.Popen[str]:
    """The launcher itself."""
    command = [*TORCHRUN, f"--master_port={free_port()}", str(SUPPORT / program)]
    return subprocess.Popen(
        [*command, *case.arguments(run_dir, stage)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(JOB=str(run_dir), **env),
        text=True,
    )


def left_running(run_dir: Path) -> list[psutil.Process]:
    """Processes of the job of `start_torchrun`, whoever their parents are, that do not end."""
    return not_ended(_processes_of(run_dir))


def _processes_of(run_dir: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has just ended, or is another user's
            if process.environ().get("JOB") == str(run_dir):
                yield process


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    return output


def flat_weights(run_dir: Path, model: str) -> torch.Tensor:
    tensors = weights(run_dir, f"final/{model}")
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
# counts its own padding. A value at the edge of a calibration bin may fall on either side.
DIFFER = {
    "critic/calibration_error",
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
