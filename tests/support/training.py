"""Small training runs: how they start, how they are killed, and what they leave behind."""

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from support.killing import killed_once
from support.processes import run, run_cli
from support.shared_critic import shared_critic
from vineppo.cli import main

CONFIGS = Path(__file__).parents[2] / "configs"
Settings = Mapping[str, object]

# Sizes that no micro-batch and no two ranks divide evenly.
SMALL: Settings = {
    "num_iterations": 5,
    "rollouts.num_prompts": 5,
    "rollouts.num_samples": 3,
    "credit.num_continuations": 3,
    "optimization.batch_size": 10,
    "optimization.micro_batch_size": 3,
    "optimization.logprobs_micro_batch_size": 5,
    "task.num_train_problems": 100,
    "task.num_test_problems": 7,
    "evaluation.every": 2,
    "checkpoint.every": 2,
    "checkpoint.keep": 2,
}
NUM_ROLLOUTS = 15
NO_WANDB: Settings = {"logging.wandb_project": "null"}  # it takes a second to start
# It starts in a third of the time.
WITHOUT_VLLM: Settings = {
    "engine": json.dumps({"kind": "transformers", "dtype": "float32", "max_model_len": 128})
}
SHORT: Settings = {
    **SMALL,
    **NO_WANDB,
    "num_iterations": 3,
    "checkpoint.every": 1,
    "checkpoint.keep": 3,
}

_PPO: Settings = {
    **{key: value for key, value in SMALL.items() if not key.startswith("credit.")},
    **NO_WANDB,
    "num_iterations": 4,
    "checkpoint.every": 1,
    "checkpoint.keep": 4,
    "reference.kl_control": json.dumps({"kind": "adaptive", "target": 0.01, "horizon": 100}),
    "reference.kl_in": "reward",
    "reference.kl_estimator": "k1",
    "reference.kl_clamp": "null",
}
# Two iterations of warm-up, then two of the policy as well.
PPO: Settings = {
    **_PPO,
    "critic.warmup_iterations": 2,
    "critic.batch_size": 8,
    "critic.micro_batch_size": 3,
    "critic.num_epochs": 1,
}
SHARED_PPO: Settings = {
    **_PPO,
    "critic": json.dumps(
        shared_critic(warmup_iterations=2, loss={"kind": "squared_error", "clip": 0.2})
    ),
}


def arguments(run_dir: Path, name: str, settings: Settings) -> list[str]:
    assignments = [f"--set={key}={value}" for key, value in settings.items()]
    return ["train", str(CONFIGS / f"{name}.jsonnet"), f"--run-dir={run_dir}", *assignments]


def train(run_dir: Path, name: str = "demo_vineppo", settings: Settings = SMALL) -> str:
    """To the end; what it says."""
    done = run_cli(arguments(run_dir, name, settings))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """One for all workers of pytest."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / name).mkdir(exist_ok=True)
    return folder / name


class WholeRuns:
    """Runs that nothing disturbed. Each is made once; tests read them and change nothing.

    Workers of pytest share the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str = "demo_vineppo", settings: Settings = SMALL) -> Path:
        key = json.dumps([name, dict(settings)])
        run_dir = self._folder / f"{Path(name).name}_{sha256(key.encode()).hexdigest()[:12]}"
        with FileLock(f"{run_dir}.lock"):
            if not (run_dir / "final").exists():
                shutil.rmtree(run_dir, ignore_errors=True)  # what a failed attempt left
                train(run_dir, name, settings)
        return run_dir


def main_killed_once(path: Path, given: list[str]) -> int:
    killed_once(path)
    return main(given)


def train_killed_once(
    path: Path, run_dir: Path, name: str = "demo_vineppo", settings: Settings = SMALL
) -> None:
    """A run that SIGKILL ends where `path` of it exists."""
    where = f"{__name__}.main_killed_once"
    done = run(where, run_dir / path, arguments(run_dir, name, settings))
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def num_lines(run_dir: Path) -> int:
    metrics = run_dir / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def timeless(run_dir: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in row.items() if not k.startswith(("time/", "memory/"))} for row in rows
    ]


def weights(run_dir: Path, name: str = "final/policy") -> dict[str, torch.Tensor]:
    """The weights of a model, or the state of another predictor."""
    state = run_dir / name / "state.pt"
    if state.exists():
        return dict(_tensors(torch.load(state, weights_only=True), ""))
    (file,) = (run_dir / name).glob("*.safetensors")
    found: dict[str, torch.Tensor] = load_file(file)
    return found


def _tensors(node: Any, key: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(node, torch.Tensor):
        yield key, node
    elif isinstance(node, dict | list | tuple):
        for name, child in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _tensors(child, f"{key}/{name}")
    else:
        yield f"{key}={node!r}", torch.empty(0)


def assert_same_runs(here: Path, there: Path) -> None:
    """Every evaluation, table, final weight and metric (but times and memory), to the last bit."""
    assert timeless(here) == timeless(there)
    ours, theirs = (
        {path.name: json.loads(path.read_text()) for path in run_dir.glob("evaluations/*.json")}
        for run_dir in (here, there)
    )
    assert ours == theirs
    tables = {path.relative_to(there) for path in there.glob("*/iter_*.parquet")}
    assert tables == {path.relative_to(here) for path in here.glob("*/iter_*.parquet")}
    for table in tables:
        read = pyarrow.parquet.read_table
        assert read(here / table).equals(read(there / table)), table
    for model in (there / "final").iterdir():
        mine, its = (weights(run_dir, f"final/{model.name}") for run_dir in (here, there))
        assert mine.keys() == its.keys()
        assert all(torch.equal(mine[key], its[key]) for key in its)


METRICS = [
    "reward/mean", "reward/std", "reward/group_all_equal_frac", "rollout/response_length_mean",
    "rollout/response_length_max", "rollout/truncated_frac", "rollout/steps_mean",
    "rollout/engine_logprob_gap_mean", "rollout/engine_logprob_gap_max", "rollout/engine_retries",
    "values/mean",
    "values/std", "values/num_states", "values/num_continuations", "values/all_equal_frac",
    "advantages/mean", "advantages/std", "advantages/near_zero_frac", "policy/loss",
    "policy/clip_frac", "policy/approx_kl", "policy/ratio_max", "policy/entropy",
    "policy/grad_norm", "policy/lr", "kl/ref", "kl/ref_per_sequence", "kl/coef", "time/rollout_s",
    "time/values_s", "time/grading_s", "time/logprobs_s", "time/update_s", "time/sync_s",
    "time/evaluate_s", "time/checkpoint_s", "time/total_s", "time/elapsed_s", "tokens/prompt",
    "tokens/prefix_cached", "tokens/rollout", "tokens/values", "memory/peak_gib",
]  # fmt: skip
