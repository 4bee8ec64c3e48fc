"""`vineppo estimate` as it is called."""

import json
from dataclasses import asdict

import _jsonnet
import pytest
from support import hf_configs
from support.training import CONFIGS

from vineppo.cli import main
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig

GIB = 2**30
ADAPTERS = f"(import '{CONFIGS}/lib/model.libsonnet').adapters.lora"
LORA = json.loads(_jsonnet.evaluate_snippet("", ADAPTERS))


@pytest.fixture
def run(configs, capsys):
    """Runs the command; gives exit status, standard output and standard error."""

    def called(config, *options):
        status = main(["estimate", str(configs / config), *options])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return called


def of_model(values, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values))
    return ["--model-config", str(file)]


@pytest.fixture
def rho(tmp_path):
    return of_model(hf_configs.RHO_1B, tmp_path)


def test_the_demo_on_a_cpu(run):
    status, out, _ = run("demo_ppo.jsonnet", "--num-gpus=0", "--json", "--prompt-tokens=12")
    figures = json.loads(out)
    assert status == 0
    memory = figures["memory"]
    assert figures["model"]["num_parameters"] == 806_656
    # float32 under stage 0: 4 bytes of weights and 8 of moments, of policy and critic each.
    assert memory["sampling"]["policy: weights"] == 4 * 806_656
    assert memory["sampling"]["critic: Adam's moments"] == 8 * (806_656 + 128)
    assert memory["sampling"]["engine: key-value cache"] == GIB
    # 4 layers of 4 heads of 32: 2 · 4 · 128 numbers of 4 bytes.
    assert figures["cache"]["bytes_per_token"] == 4096
    assert figures["cache"]["num_tokens"] == GIB // 4096
    assert figures["peak"]["bytes"] == max(sum(lines.values()) for lines in memory.values())
    assert figures["seconds"] == {}


@pytest.mark.parametrize(("num_gpus", "recomputes"), [(1, "true"), (0, "false")])
def test_activations_are_recomputed_by_themselves_on_a_gpu(run, rho, num_gpus, recomputes):
    def figures(checkpointing):
        key = f"model.gradient_checkpointing={checkpointing}"
        options = ["--json", f"--num-gpus={num_gpus}", "--set", key]
        return json.loads(run("paper/rho1b_math_vineppo.jsonnet", *rho, *options)[1])

    assert figures("auto") == figures(recomputes)


def test_a_further_critic_has_the_lines_of_the_first(run, configs):
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), [])
    further = {"second": asdict(config.critic) | {"warmup_iterations": 0}}
    options = ("--num-gpus=0", "--json", f"--set=values.predictors={json.dumps(further)}")
    status, out, _ = run("demo_ppo.jsonnet", *options)
    assert status == 0
    memory = json.loads(out)["memory"]
    for moment in ("scoring", "backward", "step"):
        assert f"{moment}, values/second" in memory
    for lines in (memory["sampling"], memory["step, policy"]):
        for line in ("weights", "Adam's moments"):
            assert lines[f"values/second: {line}"] == lines[f"critic: {line}"] > 0


def test_text_holds_the_peak_and_the_assumptions(run):
    status, out, _ = run("demo_vineppo.jsonnet", "--num-gpus=0", "--tokens-per-s=10000")
    assert status == 0
    assert out.startswith("demo_vineppo on one CPU\n")
    assert "memory of a rank at its peak (" in out
    assert "  engine: key-value cache" in out
    assert "seconds of an iteration" in out
    assert "  an engine samples 10,000 tokens/s" in out
    assert "in 8 steps (means)" in out


def test_several_are_a_table_or_a_list(run, configs):
    """Fine-tuning samples nothing; a GPU of 1 GiB is too small."""
    several = [str(configs / "sft_arithmetic.jsonnet"), "--num-gpus=0,1", "--gpu-gib=1"]
    status, out, _ = run("demo_ppo.jsonnet", *several, "--train-tflops=1")
    assert status == 0
    columns, _, *rows = [line.strip("| ").split(" | ") for line in out.splitlines()]
    assert columns[:3] == ["config", "GPUs", "peak, GiB"]
    assert [row[:2] for row in rows] == [
        ["demo_ppo", "0"], ["demo_ppo", "1"], ["sft_arithmetic", "0"], ["sft_arithmetic", "1"]
    ]  # fmt: skip
    assert [row[2].endswith("(too much)") for row in rows] == [False, True, False, True]
    assert [row[5] for row in rows[2:]] == ["0", "0"]
    figures = json.loads(run("demo_ppo.jsonnet", *several, "--json")[1])
    assert [x["name"] for x in figures] == [row[0] for row in rows]


def test_rho_on_eight_gpus_shards_the_states(run, rho):
    """1,100,048,384 parameters, ZeRO 2: float32 weights and moments by rank."""
    on_one = json.loads(run("paper/rho1b_gsm8k_vineppo.jsonnet", "--json", *rho)[1])
    on_eight = json.loads(
        run("paper/rho1b_gsm8k_vineppo.jsonnet", "--json", "--num-gpus=8", *rho)[1]
    )
    lines = [figures["memory"]["sampling"] for figures in (on_one, on_eight)]
    assert [x["policy: weights"] for x in lines] == [2 * 1_100_048_384] * 2
    assert [x["policy: Adam's moments"] for x in lines] == [8 * 1_100_048_384, 1_100_048_384]
    assert [x["reference: weights"] for x in lines] == [2 * 1_100_048_384] * 2
    assert on_one["sampled"] == on_eight["sampled"]


@pytest.mark.parametrize(
    ("leaf", "num_gpus", "model"),
    [
        ("modern/qwen2.5_7b_math_vineppo", 4, hf_configs.QWEN_7B),
        ("modern/qwen2.5_7b_math_ppo", 8, hf_configs.QWEN_7B),
        ("paper/deepseekmath7b_math_vineppo", 4, hf_configs.DEEPSEEKMATH_7B),
        ("paper/deepseekmath7b_math_ppo", 8, hf_configs.DEEPSEEKMATH_7B),
    ],
)
def test_seven_billion_parameters_fit(run, tmp_path, leaf, num_gpus, model):
    """GPUs sold as 80 GB have 79.6 GiB."""
    options = of_model(model, tmp_path)
    figures = json.loads(run(f"{leaf}.jsonnet", "--json", f"--num-gpus={num_gpus}", *options)[1])
    assert figures["peak"]["bytes"] < 79.6 * GIB
    assert figures["peak"]["moment"] == "sampling"
    assert figures["memory"]["sampling"]["policy: gradient bucket"] == 10**9


def test_fine_tuning_has_no_reference_and_samples_nothing(run):
    status, out, _ = run("sft_arithmetic.jsonnet", "--num-gpus=0", "--json")
    figures = json.loads(out)
    assert status == 0
    assert figures["model"]["num_parameters"] == 806_656  # built from model.architecture
    assert figures["sampled"] is None
    assert not any("reference" in line for line in figures["memory"]["sampling"])


def test_adapters_alone_have_states(run):
    """Rank 4 at two of 128 × 128 projections in 4 layers: 4 · 2 · 4 · (128 + 128) parameters."""
    lora = {"kind": "lora", "rank": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    options = ["--num-gpus=0", "--json"]
    whole = json.loads(run("demo_vineppo.jsonnet", *options)[1])
    adapted = json.loads(
        run("demo_vineppo.jsonnet", *options, f"--set=model.lora={json.dumps(lora)}")[1]
    )
    lines = adapted["memory"]["sampling"]
    assert lines["policy: Adam's moments"] == 8 * 8192
    assert lines["policy: weights"] == 4 * (806_656 + 8192)
    assert lines["engine: weights"] == 4 * 806_656  # merged
    assert "reference: weights" not in lines  # the policy without its adapters
    assert adapted["operations"]["update"] == pytest.approx(4 / 6 * whole["operations"]["update"])


def test_without_a_reference_nothing_is_held_for_it(run):
    options = ["--num-gpus=0", "--json", "--set=reference.kl_coef=0"]
    free = "--set=reference.kl_estimator=null"
    lines, without = (
        json.loads(run("demo_vineppo.jsonnet", *options, *more)[1])["memory"]["sampling"]
        for more in ([], [free])
    )
    assert lines.keys() - without.keys() == {"reference: weights", "reference: activations"}


def test_checkpointing_saves_memory_and_costs_operations(run, rho):
    leaf = "paper/rho1b_gsm8k_vineppo.jsonnet"
    on = json.loads(run(leaf, "--json", *rho)[1])
    off = json.loads(run(leaf, "--json", "--set=model.gradient_checkpointing=false", *rho)[1])
    line = "policy: activations"
    saved = [figures["memory"]["backward, policy"][line] for figures in (on, off)]
    assert saved[0] < saved[1] / 5
    assert on["operations"]["update"] == pytest.approx(8 / 6 * off["operations"]["update"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-gpus=6", "--set=engine.kind=vllm_sharded", "--set=engine.tensor_parallel_size=4"],
         "config: engine.tensor_parallel_size must divide the number of ranks, 6 (--num-gpus), "),
        (["--num-gpus=2", "--set=model.dtype=bfloat16", "--set=engine.dtype=bfloat16"],
         'config: optimization.zero_stage must be at least 1 when model.dtype is "bfloat16" and '),
        (["--set=model.path=nobody/nothing"],
         "the config of model.path nobody/nothing cannot be had; --model-config FILE takes its"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(run, options, message):
    status, out, err = run("demo_vineppo.jsonnet", *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"vineppo: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--num-gpus=1,-1", "must be at least 0, got -1"),
        ("--response-share=1.5", "must be from 1e-06 to 1, got 1.5"),
        ("--tokens-per-s=nan", "must be at least 0.001, got nan"),
    ],
)
def test_options_have_a_range(run, capsys, option, message):
    with pytest.raises(SystemExit, match="2"):
        run("demo_vineppo.jsonnet", option)
    assert f"argument {option.partition('=')[0]}: {message}" in capsys.readouterr().err
