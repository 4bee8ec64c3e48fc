"""Small training runs by the command line: how they start, and what they leave behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SMALL = {
    "num_iterations": 5,
    "rollouts.num_prompts": 8,
    "rollouts.num_samples": 4,
    "credit.num_continuations": 3,
    "optimization.batch_size": 16,
    "optimization.micro_batch_size": 8,
    "task.num_train_problems": 100,
    "task.num_test_problems": 16,
    "evaluation.every": 2,
    "checkpoint.every": 2,
    "checkpoint.keep": 2,
}


TIMEOUT_S = 240


def arguments(configs: Path, run_dir: Path, name: str, settings: dict[str, object]) -> list[str]:
    assignments = [f"--set={key}={value}" for key, value in settings.items()]
    return ["train", str(configs / f"{name}.jsonnet"), f"--run-dir={run_dir}", *assignments]


def start(
    configs: Path, run_dir: Path, name: str = "demo_vineppo", settings: dict[str, object] = SMALL
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "vineppo.cli", *arguments(configs, run_dir, name, settings)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen[bytes]) -> str:
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output.decode()
    return output.decode()


def kill_when(process: subprocess.Popen[bytes], is_time, delay_s: float = 0.0) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_time():
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    time.sleep(delay_s)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def num_lines(run_dir: Path) -> int:
    metrics = run_dir / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def timeless(run_dir: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in row.items() if not k.startswith(("time/", "memory/"))} for row in rows
    ]


METRICS = [
    "reward/mean", "reward/std", "reward/group_all_equal_frac", "rollout/response_length_mean",
    "rollout/response_length_max", "rollout/truncated_frac", "rollout/steps_mean",
    "rollout/engine_logprob_gap_mean", "rollout/engine_logprob_gap_max", "values/mean",
    "values/std", "values/num_states", "values/num_continuations", "values/all_equal_frac",
    "advantages/mean", "advantages/std", "advantages/near_zero_frac", "policy/loss",
    "policy/clip_frac", "policy/approx_kl", "policy/ratio_max", "policy/entropy",
    "policy/grad_norm", "policy/lr", "kl/ref", "kl/ref_per_sequence", "kl/coef", "time/rollout_s",
    "time/values_s", "time/grading_s", "time/logprobs_s", "time/update_s", "time/sync_s",
    "time/evaluate_s", "time/checkpoint_s", "time/total_s", "time/elapsed_s", "tokens/prompt",
    "tokens/prefix_cached", "tokens/rollout", "tokens/values", "memory/peak_gib",
]  # fmt: skip
