"""PPO and VinePPO on two ranks: the numbers of one process, also when killed and resumed."""

import json
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
import torch
from support.engines import PROCESSES
from support.grids import grid
from support.marks import shared_memory
from support.policies import relative
from support.processes import call_on_ranks, free_port, run_cli, run_ranks
from support.ranks import (
    CASE,
    DIFFER,
    DIFFER_OF_VALUES,
    TIMEOUT_S,
    TOLERANCES,
    Case,
    finish,
    flat_weights,
    left_running,
    responses,
    returns,
    start_torchrun,
    train_on_two,
)
from support.sharding import shard_everything
from support.training import CONFIGS, timeless, train
from support.uncertain import UNCERTAIN

from vineppo.distributed import init_distributed
from vineppo.policy import DeepSpeedModule

TENSOR_PARALLEL = Case("vineppo", "vllm", tensor_parallel_size=2)  # one replica of both ranks
ENGINE_PROCESSES = Case("vineppo", "vllm", changes=tuple(c.split("=") for c in PROCESSES))
SLOW_CASES = [
    (Case("vineppo", "vllm"), 3),
    (Case("ppo", "vllm"), 0),
    (Case("ppo", "vllm"), 3),
    (Case("vineppo", "vllm"), 0),
    (Case("vineppo", "vllm"), 2),
    *((Case("vineppo", "transformers"), stage) for stage in (0, 2, 3)),
]


@pytest.mark.parametrize(("case", "stage"), grid((Case("ppo", "vllm"), 2), slow=SLOW_CASES))
def test_two_ranks_train_to_the_numbers_of_one(whole_runs, tmp_path, case, stage):
    train_on_two(tmp_path / "two", case, stage)
    assert_same_numbers(tmp_path / "two", case.alone(whole_runs), case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [Case("vineppo", "transformers"), TENSOR_PARALLEL])
def test_two_ranks_cut_by_entropies_as_one_does(whole_runs, tmp_path, case):
    """Two replicas, each with passes of its own; one replica, whose ranks share them."""
    segmenter = json.dumps(asdict(UNCERTAIN))
    case = replace(case, changes=(("credit.segmenter", segmenter),))
    train_on_two(tmp_path / "two", case, stage=2)
    assert_same_numbers(tmp_path / "two", case.alone(whole_runs), case)


def update_twice(rank, num_ranks, port, leg, adam, dtype, folder):
    """Updates number `leg` and the next, with a checkpoint after each; the weights after each.

    It loads the first checkpoint of the leg before, and saves it again.
    """
    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in places.items()}, MASTER_ADDR="127.0.0.1")
    init_distributed()
    torch.manual_seed(0)
    linears = [torch.nn.Linear(5, 7), torch.nn.Linear(7, 3)]  # sizes that no two ranks divide
    rows = torch.randn(6, 1, 5).to(dtype)[rank::num_ranks]
    net = torch.nn.Sequential(*linears)
    net.register_buffer("offset", torch.tensor(float(leg == 0)))
    groups = [list(linear.parameters()) for linear in linears]
    with shard_everything():
        module = DeepSpeedModule(net.to(dtype), groups, dtype, adam)
    if leg > 0:
        module.load_state(folder / f"{leg - 1}/first")
        module.save_state(folder / f"{leg}/again")
    assert net.offset == 1.0
    weights = []
    for number, name in enumerate(("first", "second")):
        rates = [1e-2 * (leg + number > 0), 1e-2]  # a group starts later than the other
        summand = lambda row: (module(row).float().pow(2).sum(), {})  # noqa: E731
        module.update(list(rows), summand, rates, lambda _: True)
        module.save_state(folder / f"{leg}/{name}")
        weights.append([w.double().flatten() for _, w in module.named_weights(net)])
    if rank == 0:
        torch.save([torch.cat(each) for each in weights], folder / f"{leg}/weights.pt")


@pytest.mark.parametrize(
    ("stage", "dtype", "offload"),
    grid(
        (2, "float32", "nothing"),
        (3, "float32", "nothing"),
        slow=[
            (0, "float32", "nothing"),
            (1, "bfloat16", "nothing"),
            (2, "bfloat16", "nothing"),
            (2, "bfloat16", "optimizer"),
            (3, "bfloat16", "optimizer"),
        ],
    ),
)
def test_a_state_is_the_same_for_any_number_of_ranks(config, tmp_path, stage, dtype, offload):
    """One rank, then two, then one: what is loaded is saved again to the last bit, and goes on."""
    adam = replace(config.optimization, zero_stage=stage, offload=offload)
    found = []
    for leg, num_ranks in enumerate((1, 2, 1)):
        given = num_ranks, free_port(), leg, adam, getattr(torch, dtype), tmp_path
        call_on_ranks(update_twice, *given, num_ranks=num_ranks)
        first, second = torch.load(tmp_path / f"{leg}/weights.pt")
        if found:
            loaded, again = tmp_path / f"{leg - 1}/first", tmp_path / f"{leg}/again"
            contents = [{x.name: x.read_bytes() for x in d.iterdir()} for d in (loaded, again)]
            assert contents[0] == contents[1]
            assert relative(first, found[-1]) < (1e-5 if dtype == "float32" else 1e-2)
            assert relative(first, second) > 1e-3
        found.append(second)


def rewound(run_dir: Path, iteration: int) -> None:
    """As if the run had been killed after the checkpoint of `iteration`."""
    shutil.rmtree(run_dir / "final")
    for later in range(iteration + 1, Case("ppo", "vllm").num_iterations + 1):
        shutil.rmtree(run_dir / f"checkpoints/iter_{later:06d}")


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 2, 3])
def test_a_run_goes_on_with_another_number_of_ranks(whole_runs, tmp_path, stage):
    """One rank, then two, then one, with a critic's optimizer; prints how weights differ."""
    case, run_dir = Case("ppo", "vllm"), tmp_path / "run"
    settings = case.settings(stage)
    alone = whole_runs(case.config, settings)
    shutil.copytree(alone, run_dir)
    models = "policy", "critic"
    for num_ranks, iteration in ((2, 2), (1, 3)):
        before = [flat_weights(run_dir, model) for model in models]
        rewound(run_dir, iteration)
        if num_ranks == 2:
            output = train_on_two(run_dir, case, stage)
        else:
            output = train(run_dir, case.config, settings)
        assert f"resumed after iteration {iteration}" in output
        for model, there in zip(models, before, strict=True):
            largest = (flat_weights(run_dir, model) - there).abs().max()
            print(f"ZeRO {stage}, to {num_ranks}, {model}: {largest:.1e}")
        assert_same_numbers(run_dir, alone, case)


def lost_blocks() -> set[Path]:
    """Shared memory of ranks that sampled together, which no process uses any more."""
    blocks = set(Path("/dev/shm").glob("*cpushm*"))
    return blocks.difference(*map(shared_memory, psutil.pids()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "stage"),
    [(CASE, 0), (Case("ppo", "vllm"), 2), (TENSOR_PARALLEL, 2), (ENGINE_PROCESSES, 0)],
)
def test_a_rank_that_is_killed_ends_the_job_which_goes_on_to_the_numbers_of_one(
    whole_runs, tmp_path, case, stage
):
    """Under torchrun, which leaves no process behind."""
    run_dir, blocks, last = tmp_path / "two", lost_blocks(), case.num_iterations - 1
    path = run_dir / f"checkpoints/iter_{last:06d}"
    process = start_torchrun(run_dir, case, stage, KILLED_ONCE=str(path))
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode != 0
    assert "exitcode" in output
    assert "-9" in output
    assert not left_running(run_dir)
    assert lost_blocks() <= blocks
    output = finish(start_torchrun(run_dir, case, stage))
    assert output.count(f"resumed after iteration {last}") == 1
    assert_same_numbers(run_dir, case.alone(whole_runs), case)


ALL_VALUES = """
local algorithm = import '{lib}/algorithm.libsonnet';
local recipes = import '{lib}/recipes.libsonnet';
local view = import '{lib}/view.libsonnet';
local ppo = import '{configs}/credit_short_ppo.jsonnet';
local sizes = {{ batch_size: 6, micro_batch_size: 2 }};
local critic = ppo.critic + sizes;
ppo + recipes.two_critics + (import '{lib}/hardware.libsonnet').without_vllm + {{
  name: 'all_values',
  num_iterations: 2,
  critic+: sizes,
  values: {{ credit: null, predictors: {{
    answer_told: critic + view.answer_prefix,
    others_told: critic + view.symbols.expected_accuracy,
    // At the critic's own rate its many small updates magnify rounding a hundred thousand times.
    judge: critic + algorithm.yes_no {{
      question: '?', yes: '1', no: '0', trained: true, learning_rate: 2e-5,
    }},
    fused: {{ kind: 'fused', prior: 'judge' }},
    answer: algorithm.vine_privileged.values.predictors.privileged + {{ num_steps: 2 }},
    writer: algorithm.generative + algorithm.learned {{
      question: '?', think_tokens: 2, think_end: '=', score_prompt: '', score_tokens: 1,
      score_end: '', score_of: 9,
    }},
  }} }},
  rollouts: {{ num_prompts: 3, num_samples: 3 }},
  optimization+: sizes,
  task+: {{ num_train_problems: 12, num_test_problems: 2 }},
  evaluation+: {{ every: 0, num_samples: 1 }},
  checkpoint+: {{ every: 0 }},
  logging+: {{ wandb_project: null }},
}}
"""


@pytest.mark.slow
def test_two_ranks_learn_values_of_every_kind_to_the_numbers_of_one(tmp_path):
    """Critics with views, asked ones, several, privileged ones, and what the policy writes."""
    file = tmp_path / "all_values.jsonnet"
    file.write_text(ALL_VALUES.format(configs=CONFIGS, lib=CONFIGS / "lib"))
    given = [["train", str(file), f"--run-dir={tmp_path / name}"] for name in ("one", "two")]
    alone = run_cli(given[0])
    assert alone.returncode == 0, alone.stderr
    run_ranks(2, "vineppo.cli.main", given[1])
    for here, there in zip(timeless(tmp_path / "two"), timeless(tmp_path / "one"), strict=True):
        assert here.keys() == there.keys()
        for name, value in there.items():
            is_said = name.startswith(("values/", "critic/", "policy/loss", "policy/grad_norm"))
            if is_said and value is not None:
                assert here[name] == pytest.approx(value, rel=2e-3, abs=1e-4), name
    for model in ("policy", "answer_told", "others_told", "judge"):
        here, there = (flat_weights(tmp_path / name, model) for name in ("two", "one"))
        assert (here - there).norm() / there.norm() < 1e-4


def assert_same_numbers(run_dir: Path, alone: Path, case: Case) -> None:
    """The same responses and values, weights within `TOLERANCES` (relative), every metric within
    1e-3."""
    for iteration in range(1, case.num_iterations + 1):
        assert responses(run_dir, iteration) == responses(alone, iteration)
        if case.algorithm == "vineppo":
            assert returns(run_dir, iteration) == returns(alone, iteration)
    for model in ("policy", "critic") if case.algorithm == "ppo" else ("policy",):
        here, there = flat_weights(run_dir, model), flat_weights(alone, model)
        assert (here - there).norm() / there.norm() < TOLERANCES[model]
    differ = DIFFER | DIFFER_OF_VALUES if case.algorithm == "vineppo" else DIFFER
    for here_row, there_row in zip(timeless(run_dir), timeless(alone), strict=True):
        assert here_row.keys() == there_row.keys()
        assert here_row["rollout/engine_logprob_gap_max"] < 1e-3  # else an engine's weights are old
        for name, value in there_row.items():
            if value is None:  # undefined, as a correlation in groups of one reward
                assert here_row[name] is None, name
            elif name not in differ:
                assert here_row[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    for name in ("iter_000000.json", "iter_000002.json"):
        evaluations = [json.loads((d / "evaluations" / name).read_text()) for d in (run_dir, alone)]
        assert evaluations[0]["num_correct_P"] == evaluations[1]["num_correct_P"]


@pytest.mark.slow
def test_an_error_of_one_rank_ends_the_job_with_its_traceback(tmp_path):
    """…and the job, started again, goes on from the last checkpoint to its end."""
    run_dir = tmp_path / "run"
    process = start_torchrun(run_dir, CASE, 0, program="failing_rank.py")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode != 0
    assert "Traceback" in output
    assert "RuntimeError: rank 1 gives up" in output
    assert not left_running(run_dir)
    output = train_on_two(run_dir, CASE, 0)
    assert output.count("resumed after iteration 1") == 1
    assert (run_dir / "final").is_dir()
