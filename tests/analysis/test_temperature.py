"""The temperature sweep: grouped by the configs, best and final by hand, redrawn from its table."""

import json
from pathlib import Path

import pytest

from analysis.__main__ import open_analysis
from analysis.tables import estimate
from vineppo.run_dir.files import write_atomic

REPOSITORY = Path(__file__).resolve().parents[2]
NAME = str(REPOSITORY / "experiments/06_temperature/temperature.py")
algorithm, by_both_temperatures, by_training_temperature, read_rows, start_of = (
    getattr(open_analysis(NAME)[0], name)
    for name in (
        "algorithm", "by_both_temperatures", "by_training_temperature", "read_rows", "start_of",
    )
)  # fmt: skip


def write_json(path, content):
    write_atomic(path, json.dumps(content).encode())


def evaluation(score, temperature=1.0, **others):
    return {
        "pass@1": score,
        "num_problems": 256,
        "samples_per_problem": 4,
        "temperature": temperature,
        "top_p": 1.0,
        "truncated_frac": score / 10,
        "response_length_mean": 100 * score,
        **others,
    }


def write_run(path, kind, temperature, seed, scores, evaluated=None):
    """A run whose evaluations at 0, 4, … are `scores`, and after its end at the `evaluated`."""
    config = {
        "name": "whatever",
        "seed": seed,
        "sampling": {"temperature": temperature, "top_p": 1.0},
        "credit": {"kind": kind},
        "critic": {"kind": "separate"} if kind == "gae" else None,
        "evaluation": {"temperature": 1.0, "top_p": 1.0},
        "task": {"kind": "arithmetic", "min_operations": 4, "num_train_problems": 64},
    }
    write_json(path / "config.json", config)
    write_json(path / "environment.json", {})
    (path / "metrics.jsonl").write_text('{"iteration": 1}\n')
    for number, score in enumerate(scores):
        write_json(path / f"evaluations/iter_{4 * number:06d}.json", evaluation(score))
    last = f"iter_{4 * (len(scores) - 1):06d}.json"
    for other, score in (evaluated or {}).items():
        folder = path / f"evaluations/evaluation.temperature={other}"
        write_json(folder / last, evaluation(score, other))
    return path


@pytest.fixture
def paths(tmp_path):
    """VinePPO at 0.5 and 1, PPO at 1; seed 2 is better by 1/8, and scores fall at the end."""
    runs = []
    for kind, temperature, end in (("vine", 1, 0.5), ("gae", 1, 0.25), ("vine", 0.5, 0.75)):
        for seed in (2, 1):
            more = 0.125 * (seed - 1)
            path = tmp_path / f"{kind}_{temperature}_{seed}"
            scores = (0.25, end + more + 0.125, end + more)
            runs.append(write_run(path, kind, temperature, seed, scores, {0.5: end + 2 * more}))
    return runs


def estimates(row, *names):
    return [vars(estimate(row, name)) for name in names]


def test_by_training_temperature_by_hand(paths):
    results = by_training_temperature(read_rows(paths))
    assert results[["algorithm", "temperature", "seeds"]].to_numpy().tolist() == [
        ["VinePPO", 0.5, "1 2"],
        ["VinePPO", 1, "1 2"],
        ["PPO", 1, "1 2"],
    ]
    cold, warm, ppo = (row for _, row in results.iterrows())
    # Of two seeds, e and e + 1/8, the interquartile mean is e + 1/16; resamples go from end to end.
    assert estimates(cold, "final", "best") == [
        {"value": 0.8125, "low": 0.75, "high": 0.875},
        {"value": 0.9375, "low": 0.875, "high": 1.0},
    ]
    assert estimates(ppo, "final") == [{"value": 0.3125, "low": 0.25, "high": 0.375}]
    assert vars(estimate(ppo, "truncated_frac")) == pytest.approx(
        {"value": 0.03125, "low": 0.025, "high": 0.0375}
    )
    assert ppo.response_length_mean == 31.25
    assert (cold.last_iteration, cold.num_evaluations, cold.evaluation_temperature) == (8, 3, 1.0)
    # At 0.5 as trained: e and e + 1/4. What is trained at 1 is as trained where it ends.
    assert estimates(cold, "as_trained") == [{"value": 0.875, "low": 0.75, "high": 1.0}]
    assert estimates(warm, "as_trained") == estimates(warm, "final")
    assert (estimate(cold, "difference"), estimate(warm, "difference")) == (None, None)
    assert estimates(ppo, "difference") == [{"value": -0.25, "low": -0.375, "high": -0.125}]


def scores(both):
    columns = ["algorithm", "temperature", "evaluation_temperature", "pass@1"]
    return both[columns].to_numpy().tolist()


def test_by_both_temperatures_by_hand(paths):
    both = by_both_temperatures(read_rows(paths))
    assert scores(both) == [
        ["VinePPO", 0.5, 0.5, 0.875],
        ["VinePPO", 0.5, 1, 0.8125],
        ["VinePPO", 1, 0.5, 0.625],
        ["VinePPO", 1, 1, 0.5625],
        ["PPO", 1, 0.5, 0.375],
        ["PPO", 1, 1, 0.3125],
    ]
    assert set(both["num_seeds"]) == {2}
