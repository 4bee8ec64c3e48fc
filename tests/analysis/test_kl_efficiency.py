"""KL efficiency: exact KL by brute force, where numbers are from, redrawing, an engine."""

import csv
import json
import shutil
from contextlib import ExitStack
from dataclasses import replace

import pandas as pd
import pytest
import torch
from support.trained_runs import lasting_process_group, trained_path  # noqa: F401

from analysis.__main__ import main
from analysis.frames import read_run
from analysis.kl_efficiency import sampled_points
from analysis.sampling.kl import (
    FOLDER,
    SAMPLE_SCHEMA,
    cells_of,
    exact_kl,
    read_samples,
)
from analysis.sampling.policies import Policies
from analysis.tables import table_path
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.models import load_model
from vineppo.token_scores import TokenLogprobs
from vineppo.types import Problem, Rollout

TEMPERATURE = 0.7
FILES = ("kl_efficiency.csv", "kl_efficiency.png", "kl_efficiency_gains.csv")


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


def log_softmax(model, rollout):
    ids = torch.tensor([[*rollout.prompt_ids, *rollout.response_ids]])
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
    for sampled, kl_T in zip(ROLLOUTS, exact_kl(module, start, ROLLOUTS, config), strict=True):
        log_p, log_q = log_softmax(policy, sampled), log_softmax(loaded.model, sampled)
        expected_T = (log_p.exp() * (log_p - log_q)).sum(-1)
        assert len(kl_T) == len(sampled.response_ids)
        assert kl_T == pytest.approx(expected_T.tolist(), rel=1e-3, abs=1e-6)
        assert min(kl_T) > 1e-3
    same = TokenLogprobs(loaded.model, loaded.engine_model.num_token_ids).eval()
    assert exact_kl(same, start, ROLLOUTS, config) == [(0.0,) * 3, (0.0,) * 5]


def samples(*responses):
    """A row a response: problem, index, number of tokens, Σ KL and reward."""
    columns = SAMPLE_SCHEMA.names[:-1]
    return pd.DataFrame(responses, columns=columns).assign(is_truncated=False)


def test_estimates_are_sums_over_responses_and_clustered_on_problems():
    responses = samples(
        ("a", 0, 2, 1.0, 1.0), ("a", 1, 2, 1.0, 0.0), ("b", 0, 4, 2.0, 1.0), ("b", 1, 4, 2.0, 0.5)
    )  # fmt: skip
    cells = cells_of(responses)
    assert cells["kl_per_token"].value == 0.5
    assert (cells["kl_per_token"].low, cells["kl_per_token"].high) == (0.5, 0.5)
    assert cells["kl_per_sequence"].value == 1.5
    # Of two problems a quarter of the resamples holds the one alone.
    assert (cells["kl_per_sequence"].low, cells["kl_per_sequence"].high) == (1.0, 2.0)
    assert cells["sample_pass@1"].value == 0.5
    sizes = ("num_problems", "samples_per_problem", "response_length")
    assert [cells[name] for name in sizes] == [2, 2, 3]
    same = responses.assign(problem_id=responses["problem_id"].replace("b", "b same as a"))
    assert cells_of(same)["kl_per_sequence"].low is None
    still = cells_of(responses.assign(kl=0.0))
    for name in ("kl_per_token", "kl_per_sequence"):
        assert (still[name].value, still[name].low, still[name].high) == (0.0, 0.0, 0.0)


def test_pass_at_1_is_the_evaluations_only_where_every_checkpoint_has_one(run_path):
    run = read_run(run_path)
    cells = cells_of(samples(("a", 0, 4, 1.0, 1.0), ("b", 0, 4, 1.0, 0.0)))
    evaluated = sampled_points([run], {run_path: {4: cells, 8: cells}})[run_path]
    assert list(evaluated["pass@1"]) == [run.evaluations[i]["pass@1"] for i in (4, 8)]
    assert (evaluated["pass@1_low"] < evaluated["pass@1"]).all()
    assert set(evaluated["sample_pass@1"]) == {0.5}
    assert set(evaluated["pass_source"]) == {"evaluation (temperature None, top_p None)"}
    sampled = sampled_points([run], {run_path: dict.fromkeys((4, 8, 9), cells)})[run_path]
    assert list(sampled["pass@1"]) == [0.5] * 3
    assert set(sampled["pass_source"]) == {"samples"}


def test_bad_input_is_one_line(two_run_paths, tmp_path, capsys):
    first, second = two_run_paths
    config = json.loads((second / "config.json").read_text())
    cases = [
        ([first, "--samples=0"], "--samples must be at least 1"),
        ([tmp_path / "nothing"], "is no directory"),
    ]
    check_refusals(cases, tmp_path, capsys)
    for change, message in (
        ({"model": {"path": "elsewhere"}}, 'model.path is "nowhere" in the one'),
        ({"task": {"kind": "gsm8k"}}, "are tested on different problems: task.kind"),
    ):
        (second / "config.json").write_text(json.dumps(config | change))
        check_refusals([([first, second], message)], tmp_path, capsys)


def check_refusals(cases, tmp_path, capsys):
    for arguments, message in cases:
        command = ["kl-efficiency", *map(str, arguments), f"--out={tmp_path / 'out'}"]
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert message in error


@pytest.mark.slow
@pytest.mark.usefixtures("lasting_process_group")
def test_with_an_engine_end_to_end(trained_path, tmp_path, monkeypatch):  # noqa: F811
    out = tmp_path / "out"
    command = ["kl-efficiency", str(trained_path), "--problems=5", "--samples=3"]
    command.append(f"--out={out}")
    assert main([*command, "--checkpoints=0"]) == 0
    start = table_path(out, FOLDER, trained_path, 0)
    of_start = start.read_bytes()
    assert main(command) == 0  # goes on with checkpoints 1 and 2
    assert start.read_bytes() == of_start
    with (out / FILES[0]).open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["iteration"]) for row in rows] == [0, 1, 2]
    for name in ("kl_per_token", "kl_per_sequence"):
        assert [float(rows[0][f"{name}{end}"]) for end in ("", "_low", "_high")] == [0, 0, 0]
        for row in rows[1:]:
            assert 0 < float(row[f"{name}_low"]) < float(row[name]) < float(row[f"{name}_high"])
    assert {row["pass_source"] for row in rows} == {"samples"}  # none of checkpoint 1
    responses = read_samples(table_path(out, FOLDER, trained_path, 2))
    assert len(responses) == 15
    assert float(rows[2]["kl_per_sequence"]) == pytest.approx(responses["kl"].mean())
    assert float(rows[2]["pass@1"]) == pytest.approx(responses["reward"].mean())
    redraw(out, tmp_path)

    def refuse(*_):
        raise AssertionError("no engine is needed for what is there")

    monkeypatch.setattr("analysis.sampling.policies.open_policies", refuse)
    assert main(command) == 0
    assert main([*command, "--checkpoints=0,2"]) == 0
    with (out / FILES[0]).open() as file:
        sources = {row["pass_source"] for row in csv.DictReader(file)}
    assert sources == {"evaluation (temperature 1.0, top_p 1.0)"}


def redraw(out, folder):
    """From the CSV alone, all files come out the same."""
    (folder / "csv").mkdir()
    shutil.copy(out / FILES[0], folder / "csv")
    assert main(["kl-efficiency", str(folder / "csv"), f"--out={folder / 'again'}"]) == 0
    for name in FILES:
        assert (folder / "again" / name).read_bytes() == (out / name).read_bytes()
