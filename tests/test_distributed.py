"""Ranks of several machines, and threads beside other programs."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.processes import call_on_ranks, free_port

from vineppo import checkpoint, session
from vineppo.checkpoint import TrainState, write_whole
from vineppo.config.load import load_config, to_dict
from vineppo.config.schema import TrainConfig
from vineppo.distributed import barrier, from_main, init_distributed
from vineppo.errors import UserError
from vineppo.run_dir import RunDir


def join(rank: int, port: int) -> None:
    """This process becomes the lone rank of one of two machines."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE="2", LOCAL_WORLD_SIZE="1",
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    init_distributed()


def decide(rank: int, port: int, configs: Path, directory: Path) -> None:
    """Rank 1 sees another directory than the main rank: one that is behind."""
    join(rank, port)
    assert from_main(lambda: f"found by {rank}") == "found by 0"
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    path = directory / f"seen_by_{rank}"
    if rank == 0:
        RunDir.open(path, to_dict(config))
    assert not session.is_finished(config, path)
    for iteration in (1, 2)[: 2 - rank]:
        directory = RunDir(path).checkpoint_path(iteration)
        (directory / "trainer").mkdir(parents=True)
        state = TrainState(iteration, 0.0, {"iteration": iteration}, 0.0)
        (directory / "state.json").write_text(json.dumps(asdict(state)))
    loaded: list[Path] = []
    models = SimpleNamespace(load_state=loaded.append)
    with session.open_record(config, 2, RunDir(path), models, 0.0) as (_, _, state):
        assert state.iteration == 2
    assert loaded == [path / "checkpoints/iter_000002/trainer"]
    if rank == 0:
        (path / "final/policy").mkdir(parents=True)
        (path / "final/policy/model.safetensors").touch()
    assert session.is_finished(config, path)
    for ask in (session.is_finished, session.open_run_dir):
        with pytest.raises(UserError, match="seen_by_0 holds a run of another config: seed"):
            ask(replace(config, seed=2), path)
    torch.distributed.destroy_process_group()


def write(rank: int, port: int, directory: Path) -> None:
    join(rank, port)
    synced: list[Path] = []
    checkpoint.sync = synced.append
    for local_rank, target in (("0", directory / "two_machines"), (str(rank), directory / "one")):
        os.environ["LOCAL_RANK"] = local_rank
        synced.clear()
        write_whole(target, lambda path: (path / f"shard_{rank}").write_text("x"))
        temporary = target.with_name(f".tmp-{target.name}")
        shards = {temporary, temporary / "shard_0", temporary / "shard_1"}
        expected = shards if local_rank == "0" else set()
        assert set(synced) == (expected | {directory} if rank == 0 else expected)
        assert {path.name for path in target.iterdir()} == {"shard_0", "shard_1"}
    barrier()
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_what_the_main_rank_sees_of_the_disk_holds_for_all(configs, tmp_path):
    call_on_ranks(decide, free_port(), configs, tmp_path)


def test_every_machine_syncs_a_checkpoint_before_it_gets_its_name(tmp_path):
    call_on_ranks(write, free_port(), tmp_path)


def test_a_rank_takes_its_gpu_before_it_joins_the_others(monkeypatch):
    calls = []
    for name, value in {"RANK": 3, "LOCAL_RANK": 1, "WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.append(device))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **_: calls.append(backend)
    )
    init_distributed()
    assert calls == [1, "cpu:gloo,cuda:nccl"]


OTHERS = """
import os, threading, time
from vineppo import distributed

cores = os.sched_getaffinity(0)
others, used_s = 0.0, 0.0

def others_cpu_s(_):
    global used_s
    used_s += others * distributed.POLL_S
    return used_s

def wait_until_on(expected):
    end = time.monotonic() + 20
    while os.sched_getaffinity(0) != expected and time.monotonic() < end:
        time.sleep(0.01)
    assert os.sched_getaffinity(0) == expected, os.sched_getaffinity(0)

distributed.POLL_S, distributed._others_cpu_s = 0.01, others_cpu_s
threading.Thread(target=distributed._watch_cores, daemon=True).start()
time.sleep(0.1)
os.sched_setaffinity(0, {min(cores)})  # as vLLM binds the threads
for others in (0.0, len(cores), 0.0, len(cores)):
    time.sleep(0.1)
    wait_until_on(cores if others else {min(cores)})
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is nothing to choose from")
def test_bound_threads_move_freely_while_others_take_cores():
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", OTHERS], check=True, env=environment)
