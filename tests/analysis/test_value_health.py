"""The metrics of values by iteration, against metrics.jsonl; the table that redraws."""

import json

import pandas as pd
import pytest

from analysis.__main__ import main, open_analysis
from analysis.notebooks import REPOSITORY

NAME = str(REPOSITORY / "experiments/12_causes/critic_health.py")
NUMBERS, health_rows = (getattr(open_analysis(NAME)[0], of) for of in ("NUMBERS", "health_rows"))


@pytest.fixture
def learned_path(run_path):
    """A critic and a further predictor, of which the first iteration has no explained variance."""
    lines = (run_path / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for place, row in enumerate(rows):
        row |= {f"critic/{name}": 0.1 * place for name in NUMBERS}
        row |= {f"values/ratios/{name}": 0.2 * place for name in NUMBERS}
        row["values/ratios/loss"] = 1.0
    rows[0]["critic/explained_variance"] = None
    (run_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run_path


def test_numbers_are_those_of_the_metrics(learned_path):
    rows = health_rows(learned_path).set_index(["predictor", "iteration"])
    iterations = [iteration for name, iteration in rows.index if name == "critic"]
    assert len(rows) == 2 * len(iterations)
    assert rows.loc[("ratios", iterations[2]), "within_problem_correlation"] == pytest.approx(0.4)
    assert rows.loc[("critic", iterations[2]), "return_std"] == pytest.approx(0.2)
    assert pd.isna(rows.loc[("critic", iterations[0]), "explained_variance"])


def test_a_run_without_learned_values_is_refused_in_a_line(run_path, capsys):
    assert main([NAME, str(run_path)]) == 2
    expected = f"error: {run_path} has no learned values whose metrics could be drawn\n"
    assert capsys.readouterr().err == expected
