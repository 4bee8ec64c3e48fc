"""The GPU's script (experiments/09_gpu/run.sh), in miniature and on a CPU."""

import csv
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import ROOT, TIMEOUT_S, environment

SMALL = {
    "engine.block_size": 32,
    "engine.enforce_eager": "true",
    "engine.max_model_len": 256,
    "engine.cpu_kv_cache_gib": 1,
    "rollouts.num_prompts": 2,
    "rollouts.num_samples": 2,
    "sampling.max_tokens": 48,
    "optimization.batch_size": 4,
    "optimization.micro_batch_size": 4,
}
# Like the real one it takes no value that is glued to a short option.
SMI = """#!/bin/sh
for option; do case "$option" in --*=*) ;; *) exit 2 ;; esac; done
while :; do echo '40, 2048, [N/A]'; sleep 0.2; done
"""


def paths(*first):
    """PATH. Its `python` runs this."""
    return os.pathsep.join(map(str, (*first, Path(sys.executable).parent, os.environ["PATH"])))


@pytest.mark.slow
def test_the_run_on_a_gpu_leaves_its_tables(tmp_path):
    for name in ("experiments", "configs", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    (tmp_path / "gsm8k").mkdir()
    for name in ("train", "test"):
        rows = [{"question": f"{n} w1 {name}?", "answer": f"3\n#### {n}"} for n in range(2)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "gsm8k" / f"{name}.jsonl").write_text(lines)
    env = environment(
        PATH=paths(smi.parent),
        ENGINES="2,4",
        SHARED="3",
        UPDATE="--set sampling.max_tokens=32 --set model.dtype=float32 --set engine.dtype=float32",
        MODEL="runs/09_rho/model",
        GSM8K="gsm8k",
        SECONDS_REAL="300",
        VALUES="--quick",
        REAL="--set num_iterations=2 --set task.prompt.kind=template",
        SHAPE="--layers 1 --hidden 64 --inner 64 --heads 2 --kv-heads 1 --step 16",
    )
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    out = tmp_path / "tables"
    command = [ROOT / "experiments/09_gpu/run.sh", out, *settings]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr
    tables = {path.stem: list(csv.DictReader(path.open())) for path in out.glob("*.csv")}
    runs = [(row["engines"], row["config"]) for row in tables["iterations"]]
    configs = ("rho_shape", "rho_shape_grpo")
    real = ("2 of 4", "gsm8k_qwen2.5_0.5b_vineppo")
    assert runs == [*itertools.product(("2 of 4", "shared of 3"), configs), real, real]
    vine, grpo, shared, _, *of_gsm8k = tables["iterations"]
    assert [row["iteration"] for row in of_gsm8k] == ["1", "2"]
    assert json.loads((out / "values_throughput.json").read_text())["ratios"]
    ways = {tuple(row.values())[:4] for row in tables["update"]}
    answers = ("yes", "no")
    assert ways == set(itertools.product(answers, answers, answers, ("8", "32")))
    assert int(vine["tokens/values"]) > 0
    assert int(grpo["tokens/values"]) == 0
    assert float(vine["time/update_s"]) > 0
    assert int(shared["tokens/values"]) > 0
    for name in ("sampling", "gpu"):
        first = {"engines": "2 of 4", "config": "rho_shape"}.items()
        rows = [row for row in tables[name] if first <= row.items()]
        seconds = [float(row["second"]) for row in rows]
        assert seconds == sorted(seconds)
        # Which of them has a row depends on how fast the machine is.
        assert {row["phase"] for row in rows} & {"evaluate", "rollout", "values"}
    found = {(row["busy_percent"], row["memory_mib"], row["power_w"]) for row in tables["gpu"]}
    assert found == {("40", "2048", "[N/A]")}
    assert {row["sampling"] for row in tables["gpu"]} == {"yes", "no"}
