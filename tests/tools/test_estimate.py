"""`vineppo estimate` as it is called."""

import json
import re

import pytest
from support import hf_configs
from support.grids import grid

from vineppo.cli import main

GIB = 2**30


@pytest.fixture
def run(configs, capsys):
    """Runs the command; gives exit status, standard output and standard error."""

    def called(config, *options):
        status = main(["estimate", str(configs / config), *options])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return called


@pytest.fixture
def figures(run):
    def read(config, *options):
        status, out, err = run(config, *options, "--json")
        assert status == 0, err
        return json.loads(out)

    return read


def of_model(values, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values))
    return ["--model-config", str(file)]


@pytest.fixture
def rho(tmp_path):
    return of_model(hf_configs.RHO_1B, tmp_path)


def test_the_demo_on_a_cpu(figures):
    found = figures("demo_ppo.jsonnet", "--num-gpus=0", "--prompt-tokens=12")
    memory = found["memory"]
    assert found["model"]["num_parameters"] == 806_656
    # float32 under stage 0: 4 bytes of weights and 8 of moments, of policy and critic each.
    assert memory["sampling"]["policy: weights"] == 4 * 806_656
    assert memory["sampling"]["critic: Adam's moments"] == 8 * (806_656 + 128)
    assert memory["sampling"]["engine: key-value cache"] == GIB
    # 4 layers of 4 heads of 32: 2 · 4 · 128 numbers of 4 bytes.
    assert found["cache_bytes_per_token"] == 4096
    assert found["peak"]["bytes"] == max(sum(lines.values()) for lines in memory.values())
    assert found["seconds"] == {}


def test_long_texts_show_before_the_run(run, tmp_path):
    """39 steps, and 16 of them at a rate that a run measured: 200 tokens a second."""
    lines = [
        {"iteration": i, "tokens/rollout": 100 * i, "time/rollout_s": 0.5,
         "tokens/values": 100.0, "time/values_s": 0.5}
        for i in (1, 1, 3)
    ]  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    merged = {"kind": "merged", "max_steps": 16, "segmenter": {"kind": "lines"}}
    merged = f"--set=credit.segmenter={json.dumps(merged)}"
    ones = ("rollouts.num_prompts", "rollouts.num_samples", "optimization.batch_size")
    sizes = dict.fromkeys([*ones, "optimization.micro_batch_size"], 1)
    sizes["credit.num_continuations"] = 9
    given = [
        *(f"--set={key}={size}" for key, size in sizes.items()),
        "--num-gpus=0",
        "--steps=39",
        "--train-tflops=1",
        f"--tokens-per-s={tmp_path}",
    ]
    assert not re.search(r"sampling, s|iteration, ", run("demo_vineppo.jsonnet", *given[:-1])[1])
    for options, steps in (([], 39), ([merged], 16)):
        status, out, err = run("demo_vineppo.jsonnet", *given, *options)
        assert status == 0, err
        shown = dict(re.split(r"  +", line.strip()) for line in out.splitlines() if "  " in line)
        assert (shown["steps"], shown["tokens_per_s"]) == (str(steps), "200")
        assert (shown["states"], shown["continuations"]) == (str(steps), f"{9 * steps}")
        assert float(shown["iteration, s"]) == pytest.approx(
            60 * float(shown["iteration, min"]), 0.01
        )
    status, _, err = run("demo_vineppo.jsonnet", f"--tokens-per-s={tmp_path}/none")
    assert (status, "--tokens-per-s must be a number or a run directory" in err) == (2, True)


def test_several_are_a_table_or_a_list(run, figures, configs):
    """A GPU of 1 GiB is too small."""
    several = [str(configs / "demo_grpo.jsonnet"), "--num-gpus=0,1", "--gpu-gib=1"]
    status, out, _ = run("demo_ppo.jsonnet", *several, "--train-tflops=1")
    assert status == 0
    columns, _, *rows = [line.strip("| ").split(" | ") for line in out.splitlines()]
    assert columns[:3] == ["config", "GPUs", "peak, GiB"]
    assert [row[:2] for row in rows] == [
        ["demo_ppo", "0"], ["demo_ppo", "1"], ["demo_grpo", "0"], ["demo_grpo", "1"]
    ]  # fmt: skip
    assert [row[2].endswith("(too much)") for row in rows] == [False, True, False, True]
    assert [x["name"] for x in figures("demo_ppo.jsonnet", *several)] == [row[0] for row in rows]


def test_rho_on_eight_gpus_shards_the_states(figures, rho):
    """1,100,048,384 parameters, ZeRO 2: float32 weights and moments by rank."""
    leaf = "paper/rho1b_gsm8k_vineppo.jsonnet"
    on_one, on_eight = (figures(leaf, *rho, f"--num-gpus={number}") for number in (1, 8))
    lines = [found["memory"]["sampling"] for found in (on_one, on_eight)]
    assert [x["policy: weights"] for x in lines] == [2 * 1_100_048_384] * 2
    assert [x["policy: Adam's moments"] for x in lines] == [8 * 1_100_048_384, 1_100_048_384]
    assert [x["reference: weights"] for x in lines] == [2 * 1_100_048_384] * 2
    assert on_one["sampled"] == on_eight["sampled"]


@pytest.mark.parametrize(
    ("leaf", "num_gpus", "model"),
    grid(
        ("modern/qwen2.5_7b_math_vineppo", 4, hf_configs.QWEN_7B),
        slow=[
            ("modern/qwen2.5_7b_math_ppo", 8, hf_configs.QWEN_7B),
            ("paper/deepseekmath7b_math_ppo", 8, hf_configs.DEEPSEEKMATH_7B),
        ],
    ),
)
def test_seven_billion_parameters_fit(figures, tmp_path, leaf, num_gpus, model):
    """GPUs sold as 80 GB have 79.6 GiB."""
    found = figures(f"{leaf}.jsonnet", f"--num-gpus={num_gpus}", *of_model(model, tmp_path))
    assert found["peak"]["bytes"] < 79.6 * GIB
    assert found["peak"]["moment"] == "sampling"
    assert found["memory"]["sampling"]["policy: gradient bucket"] == 10**9


def test_adapters_alone_have_states(figures):
    """Rank 4 at two of 128 × 128 projections in 4 layers: 4 · 2 · 4 · (128 + 128) parameters."""
    lora = {"kind": "lora", "rank": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    whole, adapted = (
        figures("demo_vineppo.jsonnet", "--num-gpus=0", *more)
        for more in ([], [f"--set=model.lora={json.dumps(lora)}"])
    )
    lines = adapted["memory"]["sampling"]
    assert lines["policy: Adam's moments"] == 8 * 8192
    assert lines["policy: weights"] == 4 * (806_656 + 8192)
    assert lines["engine: weights"] == 4 * 806_656  # merged
    assert "reference: weights" not in lines  # the policy without its adapters
    assert adapted["operations"]["update"] == pytest.approx(4 / 6 * whole["operations"]["update"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-gpus=6", "--set=engine.kind=vllm_sharded", "--set=engine.tensor_parallel_size=4"],
         "config: engine.tensor_parallel_size must divide the number of ranks, 6 (--num-gpus), "),
        (["--num-gpus=2", "--set=model.dtype=bfloat16", "--set=engine.dtype=bfloat16"],
         'config: optimization.zero_stage must be at least 1 for model.dtype "bfloat16" on '),
        (["--set=model.path=nobody/nothing"],
         "cannot read the HF config of model.path nobody/nothing; --model-config FILE names a"),
        (["--model-config=/nowhere"], "--model-config: file not found: /nowhere"),
        ([f"--model-config={__file__}"], f"cannot read the HF config of --model-config {__file__}"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(run, options, message):
    status, out, err = run("demo_vineppo.jsonnet", *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"vineppo: {message}")
    assert err.count("\n") == 1
