"""KL efficiency: exact KL by brute force, where numbers are from, redrawing, an engine."""

import csv
import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from support.trained_runs import lasting_process_group, trained_path  # noqa: F401

from analysis.__main__ import main
from analysis.frames import read_run
from analysis.kl_efficiency import sampled_rows
from analysis.kl_efficiency.samples import (
    KlSample,
    estimates,
    read_samples,
    samples_path,
    write_samples,
)
from analysis.sampling.kl import choose_prompts, exact_kl
from analysis.sampling.policies import Policies
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.rollouts import Prompt
from vineppo.token_scores import TokenLogprobs
from vineppo.types import Problem, Rollout

TEMPERATURE = 0.7
FILES = ("kl_efficiency.csv", "kl_efficiency.png", "kl_efficiency.svg")


@pytest.fixture(scope="module")
def config(configs):
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    return replace(config, sampling=replace(config.sampling, temperature=TEMPERATURE))


def rollout(index, response_ids):
    return Rollout(
        problem=Problem("p", "", ""),
        rollout_index=index,
        prompt_ids=(1, 12),
        response_ids=response_ids,
        logprobs_T=(-0.1,) * len(response_ids),
        finish_reason="stop",
        text="",
        reward=1.0,
    )


ROLLOUTS = [rollout(0, (7, 4, 5)), rollout(1, (6, 7, 8, 2, 4))]


def log_softmax(model, one):
    ids = torch.tensor([[*one.prompt_ids, *one.response_ids]])
    return torch.log_softmax(model(ids).logits[0, 1:-1].double() / TEMPERATURE, -1)


def test_the_kl_is_exact_over_the_vocabulary_at_the_training_temperature(config):
    """Against a sum over the vocabulary in double precision; the reference of the run is unused."""
    away = replace(config, reference=replace(config.reference, path="/nowhere"))
    loaded = load_model(config.model.path, "float32", "sdpa")
    start = Policies(away, 0, ExitStack()).start
    policy = load_model(config.model.path, "float32", "sdpa").model
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator) * weight.std())
    module = TokenLogprobs(policy, loaded.engine_model.num_token_ids).eval()
    for one, kl_T in zip(ROLLOUTS, exact_kl(module, start, ROLLOUTS, config), strict=True):
        log_p, log_q = log_softmax(policy, one), log_softmax(loaded.model, one)
        expected_T = (log_p.exp() * (log_p - log_q)).sum(-1)
        assert len(kl_T) == len(one.response_ids)
        assert kl_T == pytest.approx(expected_T.tolist(), rel=1e-3, abs=1e-6)
        assert min(kl_T) > 1e-3
    same = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).eval()
    assert exact_kl(same, start, ROLLOUTS, config) == [(0.0,) * 3, (0.0,) * 5]


def sample(problem, index, num_tokens, kl, reward=1.0):
    return KlSample(problem, index, num_tokens, kl, reward, False)


def test_estimates_are_sums_over_responses_and_clustered_on_problems():
    samples = [sample("a", 0, 2, 1.0), sample("a", 1, 2, 1.0, 0.0), sample("b", 0, 4, 2.0),
               sample("b", 1, 4, 2.0, 0.5)]  # fmt: skip
    found = estimates(samples)
    assert found["kl_per_token"].value == 0.5
    assert (found["kl_per_token"].low, found["kl_per_token"].high) == (0.5, 0.5)
    assert found["kl_per_sequence"].value == 1.5
    # Of two problems a quarter of the resamples holds the one alone.
    assert (found["kl_per_sequence"].low, found["kl_per_sequence"].high) == (1.0, 2.0)
    assert found["sample_pass_at_1"].value == 0.5
    still = estimates([replace(one, kl=0.0) for one in samples])
    for name in ("kl_per_token", "kl_per_sequence"):
        assert (still[name].value, still[name].low, still[name].high) == (0.0, 0.0, 0.0)


def test_pass_at_1_is_the_evaluations_only_where_every_checkpoint_has_one(run_path, tmp_path):
    run = read_run(run_path)
    tables = {}
    for iteration in (4, 8, 9):
        tables[iteration] = samples_path(tmp_path, run_path, iteration)
        write_samples(tables[iteration], [sample("a", 0, 4, 1.0), sample("b", 0, 4, 1.0, 0.0)])
    evaluated = sampled_rows([run], [{i: tables[i] for i in (4, 8)}])
    assert [one.pass_at_1 for one in evaluated] == [run.evaluations[i]["pass@1"] for i in (4, 8)]
    assert all(one.pass_at_1_low < one.pass_at_1 for one in evaluated)
    assert {one.sample_pass_at_1 for one in evaluated} == {0.5}
    assert {one.pass_source for one in evaluated} == {"evaluation (temperature None, top_p None)"}
    sampled = sampled_rows([run], [tables])
    assert [one.pass_at_1 for one in sampled] == [0.5] * 3
    assert {one.pass_source for one in sampled} == {"samples"}


def log_sequence_kl(path, **config):
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    rows = [one | {"kl/ref_per_sequence": 30 * one["kl/ref"]} for one in rows]
    (path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    found = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(found | config))


def test_a_logged_kl_is_that_of_the_policy_one_update_earlier(run_path, tmp_path, capsys):
    """kl/ref of iteration i is 0.002·i, on rollouts of checkpoint i − 1; evaluated every fourth."""
    command = ["kl-efficiency", str(run_path), "--source=metrics", f"--out={tmp_path / 'out'}"]
    assert main(command) == 2
    assert "logged no kl/ref" in capsys.readouterr().err
    log_sequence_kl(run_path, reference={"path": None, "kl_estimator": "k3"})
    assert main(command) == 0
    with (tmp_path / "out" / FILES[0]).open() as file:
        rows = list(csv.DictReader(file))
    assert [int(one["iteration"]) for one in rows] == [0, 4, 8]  # 12 is the last: no row 13
    assert [float(one["kl_per_token"]) for one in rows] == pytest.approx([0.002, 0.010, 0.018])
    assert {one["kl_source"] for one in rows} == {"kl/ref (k3)"}
    capsys.readouterr()
    log_sequence_kl(run_path, reference={"path": "another", "kl_estimator": "k3"})
    assert main(command) == 2
    assert (
        "kl/ref is the KL to another, which is not the starting policy" in capsys.readouterr().err
    )


def test_bad_input_is_one_line(two_run_paths, tmp_path, capsys):
    first, second = two_run_paths
    log_sequence_kl(first)
    log_sequence_kl(second, model={"path": "elsewhere"})
    cases = [
        ([first, second, "--source=metrics"], "start from nowhere and elsewhere"),
        ([first, "--num-samples=0"], "--num-problems and --num-samples must be at least 1"),
        ([first, "--checkpoints=5"], "has no policy of iteration 5"),
        ([tmp_path / "nothing"], "is no directory"),
    ]
    check_refusals(cases, tmp_path, capsys)
    log_sequence_kl(second, task={"kind": "gsm8k"})
    different = ([first, second, "--source=metrics"], "are tested on different problems: task.kind")
    check_refusals([different], tmp_path, capsys)


def check_refusals(cases, tmp_path, capsys):
    for arguments, message in cases:
        command = ["kl-efficiency", *map(str, arguments), f"--out={tmp_path / 'out'}"]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert message in error


def test_a_half_written_table_is_refused(tmp_path):
    path = tmp_path / "iter_000001.parquet"
    write_samples(path, [sample("a", 0, 4, 1.0)])
    assert read_samples(path) == [sample("a", 0, 4, 1.0)]
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(UserError, match="no complete parquet file"):
        read_samples(path)


def test_the_problems_are_a_seeded_sample():
    prompts = [Prompt(Problem(str(i), "", ""), ()) for i in range(20)]
    chosen = [int(prompt.problem.id) for prompt in choose_prompts(prompts, 8, seed=0)]
    assert chosen == sorted(set(chosen))
    assert len(chosen) == 8
    assert choose_prompts(prompts, 8, seed=0) == [prompts[i] for i in chosen]
    assert choose_prompts(prompts, 8, seed=1) != [prompts[i] for i in chosen]
    assert choose_prompts(prompts, 99, seed=0) == prompts


def test_readers_need_neither_torch_nor_vllm():
    """What is drawn again is drawn where only the tables are."""
    modules = "analysis.gradient_variance, analysis.kl_efficiency, analysis.value_accuracy"
    code = f"import sys, {modules}; sys.exit(bool({{'torch', 'vllm'}} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("lasting_process_group")
def test_with_an_engine_end_to_end(trained_path, tmp_path, monkeypatch):  # noqa: F811
    out = tmp_path / "out"
    command = ["kl-efficiency", str(trained_path), "--num-problems=5", "--num-samples=3"]
    command.append(f"--out={out}")
    assert main([*command, "--checkpoints=0"]) == 0
    start = samples_path(out, trained_path, 0)
    of_start = start.read_bytes()
    assert main(command) == 0  # goes on with checkpoints 1 and 2
    assert start.read_bytes() == of_start
    with (out / FILES[0]).open() as file:
        rows = list(csv.DictReader(file))
    assert [int(one["iteration"]) for one in rows] == [0, 1, 2]
    for name in ("kl_per_token", "kl_per_sequence"):
        assert [float(rows[0][f"{name}{end}"]) for end in ("", "_low", "_high")] == [0, 0, 0]
        for one in rows[1:]:
            assert 0 < float(one[f"{name}_low"]) < float(one[name]) < float(one[f"{name}_high"])
    assert {one["pass_source"] for one in rows} == {"samples"}  # none of checkpoint 1
    samples = read_samples(samples_path(out, trained_path, 2))
    assert len(samples) == 15
    assert float(rows[2]["kl_per_sequence"]) == pytest.approx(sum(s.kl for s in samples) / 15)
    assert float(rows[2]["pass@1"]) == pytest.approx(sum(s.reward for s in samples) / 15)
    redraw(out, tmp_path)

    def refuse(*_):
        raise AssertionError("no engine is needed for what is there")

    monkeypatch.setattr("analysis.sampling.policies.open_policies", refuse)
    assert main(command) == 0
    assert main([*command, "--checkpoints=0,2"]) == 0
    with (out / FILES[0]).open() as file:
        sources = {one["pass_source"] for one in csv.DictReader(file)}
    assert sources == {"evaluation (temperature 1.0, top_p 1.0)"}


def redraw(out, folder):
    """From the committed CSV alone, all three files come out the same."""
    (folder / "csv").mkdir()
    shutil.copy(out / FILES[0], folder / "csv")
    assert main(["kl-efficiency", str(folder / "csv"), f"--out={folder / 'again'}"]) == 0
    for name in FILES:
        assert (folder / "again" / name).read_bytes() == (out / name).read_bytes()
