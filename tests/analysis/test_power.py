"""Power: components from simulated runs, the seeds that they come to, and refusals."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis import counts
from analysis.__main__ import main
from analysis.power import COMPONENTS, POWER, SEEDS, components_of
from analysis.stats.comparison import Spread, power, seeds_needed

NUM_PROBLEMS, NUM_SAMPLES = 64, 16
SEED_SD = 0.03


def table(num_seeds, *, correlation=0.8, num_methods=2, num_samples=NUM_SAMPLES, setting="long"):
    """Rows of evaluations.parquet whose scores vary by a known seed effect and by sampling."""
    generator = np.random.default_rng(3)
    shared_S = generator.normal(0, SEED_SD * correlation**0.5, num_seeds)
    rows = []
    for method in ("ppo", "vineppo", "grpo")[:num_methods]:
        own_S = generator.normal(0, SEED_SD * (1 - correlation) ** 0.5, num_seeds)
        for seed, shift in enumerate(shared_S + own_S):
            rates_P = np.clip(np.linspace(0.2, 0.8, NUM_PROBLEMS) + shift, 0, 1)
            rows += [
                (f"{method}_{seed}", f"{setting}_{method}", seed, setting, 10, f"p{p}", int(c))
                for p, c in enumerate(generator.binomial(num_samples, rates_P))
            ]
    frame = pd.DataFrame(rows, columns=counts.SCHEMA.names[:7])
    return frame.assign(num_samples=num_samples, elapsed_s=1.5, tokens_sampled=7)


@pytest.fixture
def folder(tmp_path):
    counts.write(tmp_path / "table", table(6), {})
    return tmp_path / "table"


def test_the_components_are_those_that_made_the_runs():
    about, found = components_of(table(400), "last")
    assert about["seed_sd"].value == pytest.approx(SEED_SD, rel=0.1)
    assert about["seed_sd"].low < SEED_SD < about["seed_sd"].high
    assert about["correlation"] == pytest.approx(0.8, abs=0.08)
    rates_P = np.linspace(0.2, 0.8, NUM_PROBLEMS)
    noise = np.mean(rates_P * (1 - rates_P)) / NUM_PROBLEMS / NUM_SAMPLES
    assert about["noise_sd"] == pytest.approx(noise**0.5, rel=0.02)
    assert (about["num_samples"], about["num_pairs"]) == (1024, 400)
    assert 798 / 1.8 < about["df"] < 798 / 1.4  # of two methods whose scores correlate 0.77
    assert found.spread.seed_sd == about["seed_sd"].value


def test_the_tables_hold_what_the_statistics_say_of_the_components(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["power", str(folder), "--difference", "0.02", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    (part,) = COMPONENTS.read(out).to_dict("records")
    needed, chances = SEEDS.read(out), POWER.read(out)
    spread = Spread(part["seed_sd"], part["noise_sd"], part["correlation"])
    for more in (1, 4, 16, None):
        noise = 0.0 if more is None else spread.noise_sd / more**0.5
        for test, correlation in (("welch", None), ("paired", spread.correlation)):
            design = Spread(spread.seed_sd, noise, correlation)
            samples = needed["num_samples"]
            same = samples.isna() if more is None else (samples == 1024 * more).fillna(False)
            row = needed[(needed["test"] == test) & same].iloc[0]
            assert row["noise_sd"] == pytest.approx(noise)
            assert row["num_seeds"] == seeds_needed(0.02, design)
            samples = chances["num_samples"]
            same = samples.isna() if more is None else (samples == 1024 * more).fillna(False)
            of_design = chances[(chances["test"] == test) & same].set_index("num_seeds")["power"]
            assert of_design[10] == pytest.approx(power(10, 0.02, design))
    assert "| long | welch | 1,024 | " in printed
    assert "| long | paired | any number | " in printed
    summary = json.loads((out / "summary.json").read_text())["power"]
    assert summary["settings"]["long"]["seed_sd"]["value"] == part["seed_sd"]


def test_methods_that_share_no_seeds_have_no_pairs(tmp_path):
    rows = table(4)
    rows.loc[rows["method"] == "long_ppo", "seed"] += 10
    counts.write(tmp_path / "table", rows, {})
    out = tmp_path / "out"
    assert main(["power", str(tmp_path / "table"), "--difference=0.02", f"--out={out}"]) == 0
    assert set(SEEDS.read(out)["test"]) == {"welch"}
    assert COMPONENTS.read(out)["correlation"].isna().all()


def test_what_a_hopeless_difference_needs_is_empty(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["power", str(folder), "--difference=0.00001", f"--out={out}"]) == 0
    assert "> 10,000" in capsys.readouterr().out
    assert SEEDS.read(out)["num_seeds"].isna().any()


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (table(2), [], "the following arguments are required: --difference"),
        (table(2), ["--difference=2"], "--difference must be above 0 and below 1, got 2"),
        (
            table(2),
            ["--difference=0.02", "--power=1"],
            "--power must be above 0.05 and below 1, got 1",
        ),
        (
            table(1),
            ["--difference=0.02"],
            "long: seeds must be at least 2 of a method, got 1 of each",
        ),
        (
            table(2, num_samples=1),
            ["--difference=0.02"],
            "long: one answer a problem does not tell the evaluation's noise",
        ),
    ],
)
def test_what_cannot_be_told_is_one_clear_line(tmp_path, capsys, rows, arguments, message):
    counts.write(tmp_path / "table", rows, {})
    assert main(["power", str(tmp_path / "table"), *arguments]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
