"""The very commands of `make demo`, at a tiny size, as the installed programs."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import ROOT, environment

TINY = {
    "num_iterations": 1,
    "rollouts.num_prompts": 16,
    "rollouts.num_samples": 4,
    "optimization.batch_size": 64,
    "task.num_train_problems": 64,
    "task.num_test_problems": 8,
}
# What `make test` hands down.
OF_MAKE = {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder like the virtual environment's; its `vineppo` adds settings to a training run."""
    folder = tmp_path / "bin"
    folder.mkdir()
    settings = " ".join(
        f"--set {key}={value}" for key, value in TINY.items() if "credit" not in key
    )
    vineppo = folder / "vineppo"
    vineppo.write_text(f'#!/bin/sh\nexec {Path(sys.executable).parent}/vineppo "$@" {settings}\n')
    vineppo.chmod(vineppo.stat().st_mode | stat.S_IXUSR)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return folder


def recipe(programs: Path, seed: str = "") -> str:
    """The commands of `make demo` after the setup."""
    command = ["make", "--no-print-directory", "-n", "demo", f"SEED={seed}", f"BIN={programs}"]
    env = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    setup, _, rest = subprocess.check_output(command, cwd=ROOT, env=env, text=True).partition("\n")
    assert setup.startswith("requirements/setup.sh")
    return rest


@pytest.mark.slow
def test_the_demo_trains_both_and_reports(programs, tmp_path):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    done = subprocess.run(
        ["sh", "-ec", recipe(programs)],
        cwd=tmp_path, env=environment(WANDB_MODE="offline"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("vineppo", "ppo"):
        run_dir = tmp_path / f"runs/demo_{name}"
        (row,) = (run_dir / "metrics.jsonl").read_text().splitlines()
        assert json.loads(row)["iteration"] == 1
        assert (run_dir / "final/policy/model.safetensors").exists()
    page = (tmp_path / "runs/demo_report/report.html").read_text()
    assert "demo_vineppo" in page
    assert "demo_ppo" in page
